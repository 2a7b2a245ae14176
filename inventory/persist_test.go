package inventory

import (
	"testing"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// One round trip for many items, on a Redis that does not have the script
// cached, including an item whose keys are broken and one with more numbers than
// a call takes.
func TestManyItemsArePersistedTogether(t *testing.T) {
	t.Parallel()
	b := setup(t)
	many := onSale(1, 0)
	many.Unlimited = true
	var all []Written
	for _, n := range []NewStock{many, onSale(2, 3), onSale(3, 3)} {
		item, epoch := b.loaded(n)
		w := Written{Item: item, Epoch: epoch}
		for user := range int64(3) {
			a := one(user + 1)
			b.reserve(item, epoch, a)
			w.Nos = append(w.Nos, a.No)
		}
		all = append(all, w)
	}
	for len(all[0].Nos) <= scriptChunk {
		all[0].Nos = append(all[0].Nos, ids.NewFor(9))
	}
	last := one(4)
	b.reserve(all[0].Item, all[0].Epoch, last)
	all[0].Nos = append(all[0].Nos, last.No)
	require.NoError(t, b.rdb.Set(t.Context(), all[1].Item.holdsKey(all[1].Epoch), "not a hash", 0).Err())
	require.NoError(t, b.rdb.ScriptFlush(t.Context()).Err())
	for range 2 { // repeating it changes nothing
		if err := b.PersistedAll(t.Context(), all); err == nil {
			t.Error("no error for the broken item")
		}
		for i, want := range []int64{4, 0, 3} {
			mustBe(t, "persisted", b.state(all[i].Item).Persisted, want)
		}
	}
	if err := b.PersistedAll(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
