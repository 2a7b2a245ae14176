package inventory

import (
	"strings"
	"testing"

	"stampede/platform/base/ids"
)

func TestLargeBatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 700))
	var all []Attempt
	for user := range int64(2 * MaxBatch) {
		all = append(all, one(user+1))
	}
	d := b.reserve(item, epoch, all[:MaxBatch]...)
	mustBe(t, "remaining", d.Remaining, 700-MaxBatch)
	for i, r := range d.Results {
		mustBe(t, "result", r, Result{Verdict: Granted, Seq: int64(i + 1)})
	}
	again := b.reserve(item, epoch, all[:MaxBatch]...)
	for i, r := range again.Results {
		mustBe(t, "repeated result", r, Result{Verdict: Repeated, Seq: int64(i + 1)})
	}
	d = b.reserve(item, epoch, all[MaxBatch:]...)
	mustBe(t, "last grant", d.Results[700-MaxBatch-1].Verdict, Granted)
	mustBe(t, "first refusal", d.Results[700-MaxBatch].Verdict, AllHeld)

	var none Decision
	if err := b.Reserve(t.Context(), item, epoch, append(all[:MaxBatch:MaxBatch], all[MaxBatch]), &none); err == nil {
		t.Error("a batch above the bound was accepted")
	}
	if err := b.Reserve(t.Context(), item, epoch, []Attempt{{User: 1, No: ids.NewFor(1)}}, &none); err == nil {
		t.Error("an attempt for no units was accepted")
	}
}

// Every key of an item lies in one slot, and no two items share a name.
func TestKeysOfAScriptShareASlot(t *testing.T) {
	t.Parallel()
	for _, item := range []Item{{ID: 1, ActivityID: 7}, {ID: 1, ActivityID: 7, Shard: 3}, {ID: 1, ActivityID: 7, PerActivity: true}} {
		keys := append(item.epochKeys(5), item.stateKey(), item.buyersKey())
		for _, k := range keys {
			tag, _, ok := strings.Cut(k, "}")
			if !ok || tag+"}" != item.group() {
				t.Errorf("key %s does not begin with %s", k, item.group())
			}
		}
	}
}

// A hash that was lost alone, by eviction or by hand, looks like one without
// entries: the item must not sell its units twice, nor call a queued number
// unknown, and is loaded again.
func TestLostKeyFencesItsItem(t *testing.T) {
	t.Parallel()
	for what, key := range map[string]func(Item, int64) string{
		"users": Item.usersKey, "holds": Item.holdsKey, "buyers": func(i Item, _ int64) string { return i.buyersKey() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := onSale(1, 3)
			n.PerActivity = true
			item, epoch := b.loaded(n)
			written, queued := one(1), one(2)
			b.reserve(item, epoch, written, queued)
			b.write(item, epoch, written)
			b.rdb.Unlink(t.Context(), key(item, epoch))
			if what != "buyers" {
				_, _, _, _, _, err := b.Hold(t.Context(), item, queued.User)
				mustFail(t, err, ErrFenced)
			}
			mustBe(t, "gate", b.reserve(item, epoch, one(1)).Gate, Fenced)
			b.mustStand(item, Loading)
			b.deps.Grants = &writingGrants{quietBus: b.bus, b: b, item: item}
			if what == "holds" { // its message is in the stream
				b.write(item, epoch, queued)
			}
			b.load(item)
			for _, a := range []Attempt{written, queued} {
				mustBe(t, "holder", only(t, b.reserve(item, b.state(item).Epoch, a)).Verdict, Repeated)
			}
			b.mustBeClean()
		})
	}
}
