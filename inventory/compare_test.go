package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/inventory/compare"
	"stampede/inventory/lua"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// compareAll makes one round of comparisons of an instance and waits for it.
func (b *bundle) compareAll(s *Service) (started int) {
	b.t.Helper()
	c := s.NewComparisons()
	started, err := c.Start(b.t.Context())
	require.NoError(b.t, err)
	c.Walks.Wait()
	return started
}

// A payment that Postgres has a moment before Redis is no difference.
func TestComparisonLeavesWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 3))
	paid := b.pay(b.written(item, 1))
	b.store.Books = booksThen{b.store.Books, sync.OnceFunc(func() { b.mustBring(paid) })}
	repaired, found, err := b.CompareOrders(t.Context(), item, 0)
	require.Equal(t, "repaired and found", fmt.Sprint(repaired, found, err), "0 [] <nil>")
	require.Equal(t, "committed", b.state(item).Committed, 1)
}

// differs are the open alarms about differences.
func (b *bundle) differs() []alarm.Alarm {
	b.t.Helper()
	l, err := alarm.List(b.t.Context(), b.db, alarm.Filter{Code: "redis-differs"})
	require.NoError(b.t, err)
	return l
}

// A work list that is lost after its events were acknowledged loses nothing: the comparison finds every end, commits,
// releases, tombstones and buyers alike.
func TestLostWorkListLosesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	died := b.instance() // before it worked on what events told it
	b.store.CompareTick, b.store.CompareEvery = 20*time.Millisecond, 20*time.Millisecond
	plain := onSale(1, 9)
	once := onSale(2, 9)
	once.PerActivity, once.Rebuy = true, false
	gone := map[Item]Attempt{}
	for _, n := range []NewStock{plain, once} {
		item, epoch := b.loaded(n)
		user := item.ID * 100
		paid, closed, live := one(user), one(user+1), one(user+2)
		refused, written := one(user+3), one(user+4)
		b.reserve(item, epoch, paid, closed, live, refused, written, one(user+5))
		b.write(item, epoch, paid, closed, live)
		// The writer ended between its commit and Persisted.
		b.orders.put(item, refused, epoch, orderevent.StatusRefused)
		b.write(item, epoch-1, written)
		b.orders.put(item, written, epoch, orderevent.StatusPending)
		events := map[string]orderevent.Order{
			orderevent.SubjectPaid: b.pay(paid.No), orderevent.SubjectClosed: b.close(closed.No),
		}
		for subject, o := range events {
			require.NoError(t, b.deliverTo(died, subject, o))
		}
		gone[item] = closed
	}
	pgtest.Work(t, b.Run)
	pgtest.Work(t, b.RunComparing)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		x, y := b.state(plain.Item), b.state(once.Item)
		return x.Remaining == 5 && x.Committed == 1 && y.Remaining == 5 && y.Committed == 1
	}, "the comparison applies what no event told")
	b.mustBeClean()
	for item, closed := range gone {
		st := b.state(item)
		require.Equal(t, "persisted", st.Persisted, 5)
		require.Equal(t, "the closed number again", only(t, b.reserve(item, st.Epoch, closed)).Verdict, Finished)
	}
}

// After the first comparison only orders that have changed are looked at, and once in a while every holder: an item that
// waits for a hundred thousand payments costs nothing meanwhile.
func TestComparisonReadsWhatHasChanged(t *testing.T) {
	t.Parallel()
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprint("once ", once), func(t *testing.T) { t.Parallel(); comparesWhatHasChanged(t, once) })
	}
}

func comparesWhatHasChanged(t *testing.T, once bool) {
	t.Helper()
	b := setup(t)
	n := onSale(1, 9)
	n.PerActivity = once
	item, epoch := b.loaded(n)
	paid, closed, live := b.written(item, 1), b.written(item, 2), b.written(item, 3)
	b.store.Recheck = time.Nanosecond
	c := b.NewComparisons()
	round := func() {
		t.Helper()
		b.sql(`UPDATE platform.leases SET expires_at = clock_timestamp()`)
		clear(c.Due)
		_, err := c.Start(t.Context())
		require.NoError(t, err)
		c.Walks.Wait()
	}
	round()
	// No order tells of a holder that Postgres does not know.
	b.rdb.HSet(t.Context(), item.UsersKey(epoch), "77", ids.NewFor(77).String())
	b.pay(paid)
	b.close(closed)
	round()
	st := b.state(item)
	require.Equal(t, "committed, remaining", [2]int64{st.Committed, st.Remaining}, [2]int64{1, 7})
	buyer := func(user string) string { return b.rdb.HGet(t.Context(), item.BuyersKey(), user).Val() }
	if once {
		require.Equal(t, "buyers", [2]string{buyer("2"), buyer("3")}, [2]string{"", live.String() + ":1"})
	}
	require.Equal(t, "alarms", len(b.differs()), 0)
	b.store.CompareWhole = 0
	round()
	require.Equal(t, "alarms", len(b.differs()), 1)
	b.store.CompareWhole = time.Hour
	b.rdb.HDel(t.Context(), item.UsersKey(epoch), "77")
	b.load(item)
	epoch = b.state(item).Epoch
	b.rdb.HSet(t.Context(), item.UsersKey(epoch), "78", ids.NewFor(78).String())
	round()
	require.Equal(t, "how often the alarm was raised, again after a Load", b.differs()[0].Count, 2)
	if !once {
		return
	}
	// The Load of another item may have made the activity's list of buyers anew, also while nothing of this one can change.
	b.rdb.HDel(t.Context(), item.UsersKey(epoch), "78")
	b.mustBring(b.pay(live))
	b.store.CompareWhole = 0
	round() // removes the buyer without a mark
	round()
	b.store.CompareWhole = time.Hour
	b.rdb.HDel(t.Context(), item.BuyersKey(), "3")
	other := onSale(2, 9)
	other.ActivityID, other.PerActivity = item.ActivityID, true
	b.loaded(other)
	round()
	require.Equal(t, "a buyer that was missing", buyer("3"), live.String()+":1")
}

// Buyers of an activity follow the marks: missing ones are added, and stale ones removed. Another item's entries
// stay.
func TestComparisonAlignsBuyers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n, other := onSale(1, 9), onSale(2, 9)
	n.PerActivity, other.PerActivity = true, true
	item, epoch := b.loaded(n)
	b.create(other)
	b.load(other.Item)
	missing := b.written(item, 1)
	b.reserve(other.Item, b.state(other.Item).Epoch, one(2))
	theirs := b.rdb.HGet(t.Context(), item.BuyersKey(), "2").Val()
	b.rdb.HDel(t.Context(), item.BuyersKey(), "1")
	b.rdb.HSet(t.Context(), item.BuyersKey(), "3", ids.New().String()+":1", "4", ids.New().String()+":1:x")
	require.Equal(t, "compared", b.compareAll(b.Service), 2)
	require.Equal(t, "missing", b.rdb.HGet(t.Context(), item.BuyersKey(), "1").Val(), missing.String()+":1")
	require.Equal(t, "the other item's", b.rdb.HGet(t.Context(), item.BuyersKey(), "2").Val(), theirs)
	require.Equal(t, "stale", b.rdb.HExists(t.Context(), item.BuyersKey(), "3").Val() || b.rdb.HExists(t.Context(), item.BuyersKey(), "4").Val(), false)
	require.Equal(t, "bought in the activity", only(t, b.reserve(other.Item, b.state(other.Item).Epoch, one(1))).Verdict, AlreadyBought)
	_ = epoch
}

// beforeScript runs a function before a script's first call.
type beforeScript struct {
	afterFirst
}

func (h *beforeScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && args[0] == "evalsha" && slices.Contains(h.hashes, args[1].(string)) {
			h.then.Do(h.do)
		}
		return next(ctx, cmd)
	}
}

// A buyer's entry that changes between the read and the removal stays.
func TestRemoveBuyersComparesEntries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 9)
	n.PerActivity = true
	item, _ := b.loaded(n)
	stale, fresh := ids.New().String()+":1", ids.New().String()+":2"
	b.rdb.HSet(t.Context(), item.BuyersKey(), "1", stale, "2", stale)
	b.rdb.AddHook(&beforeScript{afterFirst{sendsTwice: sendsTwice{hashes: []string{lua.Unbuy.Hash()}}, do: func() {
		b.rdb.HSet(context.Background(), item.BuyersKey(), "1", fresh) // the user buys another item
	}}})
	require.NoError(t, b.Forget(t.Context(), item))
	require.Equal(t, "changed", b.rdb.HGet(t.Context(), item.BuyersKey(), "1").Val(), fresh)
	require.Equal(t, "stale", b.rdb.HExists(t.Context(), item.BuyersKey(), "2").Val(), false)
}

// Instances share the items: an item is compared by one of them at a time, and by another as soon as that is too long
// ago. A start compares all.
func TestInstancesShareComparisons(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 3))
	b.loaded(onSale(2, 3))
	c, d := b.NewComparisons(), b.instance().NewComparisons()
	round := func(c *compare.Comparisons, want int, what string) {
		t.Helper()
		n, err := c.Start(t.Context())
		require.NoError(t, err)
		c.Walks.Wait()
		require.Equal(t, what, n, want)
	}
	round(c, 2, "at its start")
	round(d, 2, "at the other's start")
	round(c, 0, "soon after")
	require.NoError(t, b.deliver(orderevent.SubjectPaid, slices.Repeat([]orderevent.Order{{ItemID: item.ID, ActivityID: item.ActivityID}}, 5000)...))
	round(c, 1, "after an overflow")
	round(c, 0, "and no more")
	b.sql(`UPDATE platform.leases SET expires_at = clock_timestamp() WHERE name = 'compare:2:0'`)
	clear(c.Due)
	clear(d.Due)
	round(d, 1, "when the lease is free")
	round(c, 0, "when the other has it")
}

// What the comparison cannot explain is left as it is, and raises an alarm.
func TestComparisonReportsWhatItMustNotRepair(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plant func(b *bundle, item Item, epoch int64)
		want  string
	}{
		"a mark without an order": {func(b *bundle, item Item, epoch int64) {
			b.rdb.HSet(b.t.Context(), item.UsersKey(epoch), "9", ids.New().String())
		}, "no such order"},
		"a hold without a mark": {func(b *bundle, item Item, epoch int64) {
			b.rdb.HSet(b.t.Context(), item.HoldsKey(epoch), ids.New().String(), "9:1:1:1")
		}, "holds no units"},
		"paid in Redis only": {func(b *bundle, item Item, epoch int64) {
			b.rdb.HSet(b.t.Context(), item.UsersKey(epoch), "1", b.written(item, 1).String()+":c")
		}, "counts it as paid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, _ := b.loaded(onSale(1, 3))
			b.load(item)
			epoch := b.state(item).Epoch
			b.written(item, 5)
			b.reserve(item, epoch, one(6)) // in flight
			b.compareAll(b.Service)
			require.Equal(t, "alarms before", len(b.differs()), 0)
			c.plant(b, item, epoch)
			b.compareAll(b.Service)
			if l := b.differs(); len(l) != 1 || l[0].Subject != "item 1" || !strings.Contains(l[0].Detail, c.want) {
				t.Errorf("alarms %+v", l)
			}
		})
	}
}

// An item of which nothing can move is not walked again.
func TestItemAtRestIsComparedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 3))
	no := b.written(item, 1)
	look := func() bool {
		t.Helper()
		_, _, err := b.CompareOrders(t.Context(), item, 0)
		require.NoError(t, err)
		_, rests := b.Compared.Load(item)
		return rests
	}
	require.Equal(t, "while unpaid", look(), false)
	b.pay(no)
	require.Equal(t, "when just committed", look(), false)
	require.Equal(t, "when paid", look(), true)
	b.close(no)
	look()
	require.Equal(t, "remaining", b.state(item).Remaining, 3)
}
