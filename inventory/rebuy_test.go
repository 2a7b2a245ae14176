package inventory

import (
	"testing"
)

// Load finds an order that was closed before its release arrived.
func TestLoadFindsClosedOrdersBeforeTheirRelease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 2)
	n.Rebuy = false
	item, epoch := b.loaded(n)
	a := one(1)
	b.reserve(item, epoch, a)
	b.write(item, epoch, a)
	o := b.close(a.No)
	b.load(item)
	epoch = b.state(item).Epoch
	mustBe(t, "before the release", only(t, b.reserve(item, epoch, one(1))).Other, a.No)
	b.mustRelease(o)
	mustBe(t, "after the release", only(t, b.reserve(item, epoch, one(1))).Other, a.No)
	mustBe(t, "remaining", b.state(item).Remaining, 2)
	b.mustBeClean()
}
