package inventory

import (
	"context"
	"errors"
	"testing"
)

// writingGrants writes what is published at once, as a fast order writer does.
type writingGrants struct {
	*quietBus
	b         *bundle
	item      Item
	published []StaleHold
	fail      error
}

func (g *writingGrants) Republish(_ context.Context, _ int64, holds []StaleHold) error {
	if g.fail != nil {
		return g.fail
	}
	g.published = append(g.published, holds...)
	for _, h := range holds {
		g.b.write(g.item, h.Epoch, Attempt{User: h.User, No: h.No, Quantity: h.Quantity}) //nolint:contextcheck // the bundle has the test's context
	}
	return nil
}

// Open holds are read in chunks; those that have an order are not published.
func TestLoadSettlesEveryOpenHold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 3*MaxBatch))
	var first Attempt
	for n := range 2 * MaxBatch {
		a := one(int64(n) + 1)
		if n == 0 {
			first = a
		}
		b.reserve(item, epoch, a)
	}
	b.write(item, epoch-1, first) // its row is not known here
	g := &writingGrants{quietBus: b.bus, b: b, item: item, fail: errors.New("no stream")}
	b.deps.Grants = g
	mustFail(t, b.Load(t.Context(), item.ID), g.fail)
	b.mustNotBeOpen(item)
	g.fail = nil
	b.otherRun(item)
	b.load(item)
	mustBe(t, "published", len(g.published), 2*MaxBatch-1)
	mustBe(t, "remaining", b.state(item).Remaining, MaxBatch)
	mustBe(t, "epoch", g.published[0].Epoch, epoch)
	b.mustBeClean()
}

// A grant that was buried as a dead letter does not keep its item fenced.
func TestLoadDropsHoldsThatNothingCanWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 3))
	b.reserve(item, epoch, one(1))
	b.load(item)
	mustBe(t, "remaining", b.state(item).Remaining, 3)
}
