package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/inventory/books"
	"stampede/inventory/lua"
	"stampede/platform/base/ids"
	"stampede/platform/store/redisx"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
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
	require.Equal(t, "remaining", d.Remaining, 700-MaxBatch)
	for i, r := range d.Results {
		require.Equal(t, "result", r, Result{Verdict: Granted, Seq: int64(i + 1)})
	}
	again := b.reserve(item, epoch, all[:MaxBatch]...)
	for i, r := range again.Results {
		require.Equal(t, "repeated result", r, Result{Verdict: Repeated, Seq: int64(i + 1)})
	}
	d = b.reserve(item, epoch, all[MaxBatch:]...)
	require.Equal(t, "last grant", d.Results[700-MaxBatch-1].Verdict, Granted)
	require.Equal(t, "first refusal", d.Results[700-MaxBatch].Verdict, AllHeld)

	for what, attempts := range map[string][]Attempt{
		"a batch above the bound":        append(all[:MaxBatch:MaxBatch], all[MaxBatch]),
		"an attempt for no units":        {{User: 1, No: ids.NewFor(1)}},
		"an attempt with no time to pay": {{User: 1, No: ids.NewFor(1), Quantity: 1, PayWithin: -1}},
	} {
		require.Equal(t, what+" is accepted", b.Reserve(t.Context(), item, epoch, attempts, new(Decision)) == nil, false)
	}
}

// A hash that was lost alone, by eviction or by hand, looks like one without entries: the item must not sell its
// units twice, nor call a queued number unknown, and is loaded again.
func TestLostKeyFencesItsItem(t *testing.T) {
	t.Parallel()
	for what, key := range map[string]func(Item, int64) string{
		"users": Item.UsersKey, "holds": Item.HoldsKey, "buyers": func(i Item, _ int64) string { return i.BuyersKey() },
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
				require.ErrorIs(t, err, ErrFenced)
			}
			require.Equal(t, "gate", b.reserve(item, epoch, one(1)).Gate, Fenced)
			b.mustStand(item, books.Loading)
			b.store.Grants = &writingGrants{quietBus: b.bus, b: b, item: item}
			if what == "holds" { // its message is in the stream
				b.write(item, epoch, queued)
			}
			b.load(item)
			for _, a := range []Attempt{written, queued} {
				require.Equal(t, "holder", only(t, b.reserve(item, b.state(item).Epoch, a)).Verdict, Repeated)
			}
			b.mustBeClean()
		})
	}
}

func TestHoldAndQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 10)
	n.UserLimit = 2
	item, epoch := b.loaded(n)
	first, second := one(1), Attempt{User: 2, No: ids.NewFor(2), Quantity: 2}
	b.reserve(item, epoch, first, second)

	no, quantity, seq, persisted, ok, err := b.Hold(t.Context(), item, 2)
	got := fmt.Sprint(no, quantity, seq, persisted, ok, err)
	require.Equal(t, "second in line", got, fmt.Sprint(second.No, 2, 2, 0, true, nil))
	b.write(item, epoch, first)
	_, _, seq, persisted, _, _ = b.Hold(t.Context(), item, 2)
	require.Equal(t, "position", seq-persisted, 1)
	b.write(item, epoch, second)
	_, _, seq, _, ok, _ = b.Hold(t.Context(), item, 2)
	require.Equal(t, "written", fmt.Sprint(seq, ok), "0 true")
	_, _, _, _, ok, err = b.Hold(t.Context(), item, 3)
	require.Equal(t, "another user", fmt.Sprint(ok, err), "false <nil>")

	// Another process does not know the epoch yet and finds it.
	_, _, _, _, ok, err = b.instance().Hold(t.Context(), item, 2)
	require.Equal(t, "through another instance", fmt.Sprint(ok, err), "true <nil>")

	users, err := b.Users(t.Context(), item, epoch, 100)
	require.Equal(t, "holders", fmt.Sprint(len(users), err), "2 <nil>")
	users, err = b.Users(t.Context(), item, epoch, 1)
	require.Equal(t, "bounded holders", fmt.Sprint(len(users), err), "1 <nil>")

	// The list of an epoch that a Load has replaced is gone, which says nothing about the holders.
	b.load(item)
	_, err = b.Users(t.Context(), item, epoch, 100)
	require.ErrorIs(t, err, ErrFenced)
	users, err = b.Users(t.Context(), item, b.state(item).Epoch, 100)
	require.Equal(t, "holders after the Load", fmt.Sprint(len(users), err), "2 <nil>")
}

func TestStaleHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 10))
	old, hurried, ahead, young, written := one(1), one(2), one(3), one(4), one(5)
	hurried.PayWithin = 30
	b.reserve(item, epoch, old, hurried, ahead, young, written)
	b.write(item, epoch, written)
	b.grantedAt(item, epoch, time.Now().Add(-time.Minute), old.No, hurried.No)
	b.grantedAt(item, epoch, time.Now().Add(time.Minute), ahead.No) // Redis's clock was set back since

	stale, err := b.StaleHolds(t.Context(), item, 10*time.Second, 10)
	slices.SortFunc(stale, func(a, b StaleHold) int { return cmp.Compare(a.Seq, b.Seq) })
	for i := range stale {
		stale[i].At = time.Time{}
	}
	require.Equal(t, "stale", fmt.Sprint(stale, err), fmt.Sprint([]StaleHold{
		{No: old.No, User: 1, Quantity: 1, Seq: 1, Epoch: epoch},
		{No: hurried.No, User: 2, Quantity: 1, PayWithin: 30, Seq: 2, Epoch: epoch},
		{No: ahead.No, User: 3, Quantity: 1, Seq: 3, Epoch: epoch},
	}, nil))
	stale, err = b.StaleHolds(t.Context(), item, 0, 1)
	require.Equal(t, "bounded", fmt.Sprint(len(stale), err), "1 <nil>")
}

// grantedAt changes the time of grants.
func (b *bundle) grantedAt(item Item, epoch int64, at time.Time, nos ...ids.ID) {
	b.t.Helper()
	for _, no := range nos {
		parts := strings.Split(b.rdb.HGet(b.t.Context(), item.HoldsKey(epoch), no.String()).Val(), ":")
		parts[3] = strconv.FormatInt(at.UnixMilli(), 10)
		require.NoError(b.t, b.rdb.HSet(b.t.Context(), item.HoldsKey(epoch), no.String(), strings.Join(parts, ":")).Err())
	}
}

// One round trip for many items, on a Redis that does not have the script cached, including an item whose keys are
// broken and one with more numbers than a call takes.
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
	for len(all[0].Nos) <= lua.Chunk {
		all[0].Nos = append(all[0].Nos, ids.NewFor(9))
	}
	last := one(4)
	b.reserve(all[0].Item, all[0].Epoch, last)
	all[0].Nos = append(all[0].Nos, last.No)
	require.NoError(t, b.rdb.Set(t.Context(), all[1].Item.HoldsKey(all[1].Epoch), "not a hash", 0).Err())
	require.NoError(t, b.rdb.ScriptFlush(t.Context()).Err())
	for range 2 { // repeating it changes nothing
		require.Equal(t, "the broken item is an error", b.Persisted(t.Context(), all...) != nil, true)
		for i, want := range []int64{4, 0, 3} {
			require.Equal(t, "persisted", b.state(all[i].Item).Persisted, want)
		}
	}
	require.NoError(t, b.Persisted(t.Context()))
}

// Load finds an order that was closed before its release arrived.
func TestLoadFindsClosedOrdersBeforeTheirRelease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 2)
	n.Rebuy = false
	item, epoch := b.loaded(n)
	a := one(1)
	b.sell(item, epoch, a)
	o := b.close(a.No)
	b.load(item)
	epoch = b.state(item).Epoch
	require.Equal(t, "before the release", only(t, b.reserve(item, epoch, one(1))).Other, a.No)
	b.mustBring(o)
	require.Equal(t, "after the release", only(t, b.reserve(item, epoch, one(1))).Other, a.No)
	require.Equal(t, "remaining", b.state(item).Remaining, 2)
	b.mustBeClean()
}

// On a cluster a script would fail if it touched a key that it does not declare, or one of another slot.
func TestOnARedisCluster(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cluster, err := redisx.Open(t.Context(), redistest.Shards(t, 1).URL)
	require.NoError(t, err)
	defer func() { _ = cluster.Close() }()
	b.store.Redis = cluster

	n := onSale(1, 5)
	n.PerActivity = true
	item, epoch := b.loaded(n)
	x, y, z := one(1), one(2), one(3)
	b.reserve(item, epoch, x, y, z)
	b.write(item, epoch, x, y)
	b.mustBring(b.pay(x.No))
	b.mustBring(b.close(y.No))
	b.change(item, Change{AddStock: new(int32(2))})
	require.Equal(t, "sequence", func() int64 { _, _, seq, _, _, _ := b.Hold(t.Context(), item, 3); return seq }(), 3)
	b.mustBeClean()
	b.load(item)
	st := b.state(item)
	require.Equal(t, "books", fmt.Sprint(st.Total, st.Remaining, st.Committed), "7 6 1")
	b.mustBeClean()
}

// A full Redis refuses to grant units, before anything is written, and still accepts returns.
func TestFullRedisStillTakesUnitsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rdb := redistest.Start(t).Client
	b.store.Redis = rdb
	item, epoch := b.loaded(onSale(1, 5))
	x, y := one(1), one(2)
	b.reserve(item, epoch, x, y)
	b.write(item, epoch, x)
	before := b.state(item)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	err := b.Reserve(t.Context(), item, epoch, []Attempt{one(3)}, new(Decision))
	require.Contains(t, "a full Redis decides", fmt.Sprint(err), "OOM")
	require.Equal(t, "state after the refusal", b.state(item), before)
	require.NoError(t, b.Persisted(t.Context(), Written{Item: item, Epoch: epoch, Nos: []ids.ID{y.No}}))
	b.mustBring(b.pay(x.No))
	b.mustBring(b.close(x.No))
	require.Equal(t, "remaining", b.state(item).Remaining, 4)
	b.write(item, epoch, y)
	b.pay(y.No)
	b.mustBring(b.refund(y.No, false))
	b.change(item, Change{Paused: new(true)})
	st := b.state(item)
	require.Equal(t, "remaining after a refund, and paused", fmt.Sprint(st.Remaining, st.Paused), "5 true")
}
