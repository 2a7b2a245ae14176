package inventory

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/watch/preflight"
	"stampede/platform/workshop/require"
)

// sharded is an item with four shards.
func (b *bundle) sharded(n NewStock) (Item, int64) {
	b.t.Helper()
	b.store.StockShards = 4
	item, epoch := b.loaded(n)
	require.Equal(b.t, "shards", b.state(item).Shards, int16(4))
	return item, epoch
}

// at is a user of a shard of four, and its attempt.
func at(shard int16, n int) Attempt {
	for user := int64(1); ; user++ {
		if HomeOf(ids.Bucket(user), 4) != shard {
			continue
		}
		if n--; n < 0 {
			return one(user)
		}
	}
}

func (b *bundle) available(itemID int64) (units []int32) {
	b.t.Helper()
	rows, err := b.db.Query(b.t.Context(), `SELECT available FROM inventory.stock WHERE item_id = $1 ORDER BY shard`, itemID)
	require.NoError(b.t, err)
	for rows.Next() {
		var n int32
		require.NoError(b.t, rows.Scan(&n))
		units = append(units, n)
	}
	return units
}

func (b *bundle) proven() {
	b.t.Helper()
	for _, c := range b.Checks() {
		found, err := c.Run(b.t.Context())
		require.Equal(b.t, c.Name, fmt.Sprint(found, err), "[] <nil>")
	}
}

// At its first Load a large item gets its shards; a small one, and one that shares its activity's buyers, keeps one.
func TestUnitsAreSpreadAtTheFirstLoad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 402)
	n.Backup = 6
	item, _ := b.sharded(n)
	require.Equal(t, "rows", b.available(1), []int32{100, 101, 100, 101})
	require.Equal(t, "units in Redis", b.state(item).Remaining, int64(402))
	for _, small := range []NewStock{onSale(2, 199), {Item: Item{ID: 3, ActivityID: 8, PerActivity: true}, Total: 400, UserLimit: 1, OpensAt: n.OpensAt, ClosesAt: n.ClosesAt}} {
		other, _ := b.loaded(small)
		require.Equal(t, "shards", b.state(other).Shards, int16(1))
	}
	b.sell(item.Counter(2), b.state(item).Epoch, at(2, 0))
	b.load(item)
	require.Equal(t, "rows after another Load", b.available(1), []int32{100, 101, 99, 101})
	book, _, err := b.Book(t.Context(), 1)
	require.Equal(t, "the books", fmt.Sprint(book.Total, book.Available, book.Held, book.Backup, book.Difference, err), "408 401 1 6 0 <nil>")
	b.proven()
}

// A Load in the middle of a sale gives an item more shards: units, orders and their late events reach the right shards.
func TestLoadGivesARunningItemMoreShards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 1000)
	n.Backup, n.Rebuy = 5, false
	item, epoch := b.loaded(n)
	var all []Attempt
	for user := int64(1); user <= 40; user++ {
		all = append(all, one(user))
	}
	b.sell(item, epoch, all...)
	for _, a := range all[:10] {
		b.mustBring(b.pay(a.No))
	}
	for _, a := range all[10:20] {
		b.mustBring(b.close(a.No))
	}
	again := all[10]
	b.inTx(func(tx pgx.Tx) error {
		o := b.orders.set(again.No, orderevent.StatusPaid)
		_, err := b.Retake(t.Context(), tx, &o)
		return err
	})
	early := b.close(all[20].No) // Redis hears of it after the Load, under the shard of before
	for _, shards := range []int{4, 7} {
		b.store.StockShards = shards
		b.load(item)
		require.Equal(t, "shards", int(b.state(item).Shards), shards)
		require.NoError(t, b.bring(item, early))
		require.Equal(t, "left", b.state(item).Remaining, int64(1000-10-20+1))
		b.proven()
		for _, a := range all[21:40] {
			no, _, _, _, ok, err := b.Hold(t.Context(), item, a.User)
			require.Equal(t, "a holder", fmt.Sprint(no, ok, err), fmt.Sprint(a.No, true, nil))
		}
		late := b.orders.of(1, func(o *orderevent.Order) bool { return o.Status == orderevent.StatusPending })[0]
		b.mustBring(b.pay(late.No))
		b.proven()
	}
	b.store.StockShards = 1
	b.load(item)
	require.Equal(t, "shards, which never become fewer", b.state(item).Shards, int16(7))
	last := one(again.User)
	home := item.Home(last.User, 7)
	require.Equal(t, "the user of the order taken up again", only(t, b.reserve(home, b.state(item).Epoch, last)).Other, again.No)
}

// A shard that has none left borrows what the others have, and says "none" only when no shard has any. Units that were
// borrowed return to the shard of their user.
func TestBorrowedUnits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.sharded(onSale(1, 400))
	var sold []Attempt
	home := item.Counter(1)
	for k := range 100 {
		sold = append(sold, at(1, k))
	}
	b.sell(home, epoch, sold...)
	late := at(1, 100)
	require.Equal(t, "at home", only(t, b.reserve(home, epoch, late)).Verdict, AllHeld)
	w, err := b.Borrow(t.Context(), home, 4, 1)
	require.Equal(t, "units left elsewhere", fmt.Sprint(w.Remaining, err), "300 <nil>")
	require.Equal(t, "rows, with an equal share", b.available(1), []int32{25, 75, 100, 100})
	require.Equal(t, "after borrowing", only(t, b.reserve(home, epoch, late)).Verdict, Granted)
	b.write(home, epoch, late)
	b.proven()

	// The last units go to the shard that asks, and come back to their own.
	var rest []Attempt
	for k := range 299 {
		rest = append(rest, at(3, k))
	}
	last := item.Counter(3)
	w, err = b.Borrow(t.Context(), last, 4, 299)
	require.Equal(t, "the rest", fmt.Sprint(w.Remaining, err), "299 <nil>")
	b.sell(last, epoch, rest...)
	b.ForgetPlans() // as each hour
	for shard := range int16(4) {
		w, err := b.Borrow(t.Context(), item.Counter(shard), 4, 1)
		require.Equal(t, "nothing is left", fmt.Sprint(w.Remaining, err), "0 <nil>")
	}
	b.mustBring(b.close(sold[0].No))
	require.Equal(t, "rows after a return", b.available(1), []int32{0, 1, 0, 0})
	w, err = b.Borrow(t.Context(), item.Counter(0), 4, 5)
	require.Equal(t, "the returned unit", fmt.Sprint(w.Remaining, err), "1 <nil>")
	other := at(0, 0)
	require.Equal(t, "at another shard", only(t, b.reserve(item.Counter(0), epoch, other)).Verdict, Granted)
	b.write(item.Counter(0), epoch, other)
	b.proven()
	before := b.available(1)
	b.load(item)
	require.Equal(t, "rows after a Load", b.available(1), before)
	b.proven()
}

// A process that dies between two steps of a move loses nothing: the next one who looks for units finds them.
func TestInterruptedMoveIsFinished(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"lent", "moved"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, epoch := b.sharded(onSale(1, 400))
			dead := b.instance()
			dead.store.Failpoint = func(at string) error {
				if at == step {
					return errors.New("dead")
				}
				return nil
			}
			var own, all []Attempt
			for k := range 100 {
				own = append(own, at(0, k))
			}
			b.sell(item.Counter(0), epoch, own...)
			if _, err := dead.Borrow(t.Context(), item.Counter(0), 4, 300); err == nil {
				t.Fatal("the move did not fail")
			}
			require.Equal(t, "in Redis, all on their way", b.state(item).Remaining, int64(0))
			ready, err := b.Ready(t.Context(), item)
			require.Equal(t, "the item needs no Load", fmt.Sprint(ready, err), "true <nil>")
			w, err := b.Borrow(t.Context(), item.Counter(2), 4, 300)
			require.Equal(t, "another process finds all", fmt.Sprint(w.Remaining, err), "300 <nil>")
			for k := range 300 {
				all = append(all, at(2, k))
			}
			b.sell(item.Counter(2), epoch, all...)
			require.Equal(t, "free in Postgres", b.available(1), []int32{0, 0, 0, 0})
			b.proven()
		})
	}
}

// Crowds at all shards and returns in between: no shard says "none" while a unit is free, so that every unit is granted
// before the last shopper is refused.
func TestNoShardSaysNoneWhileAUnitIsFree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.sharded(onSale(1, 420))
	var granted atomic.Int64
	var all sync.WaitGroup
	for shard := range int16(4) {
		all.Go(func() {
			home, refused := item.Counter(shard), 0
			for k := 0; refused == 0; k++ {
				a := at(shard, k)
				for {
					var d Decision
					if err := b.Reserve(t.Context(), home, epoch, []Attempt{a}, &d); err != nil {
						t.Error(err)
						return
					}
					if d.Results[0].Verdict == Granted {
						granted.Add(1)
						b.write(home, epoch, a)
						if k%10 == 3 {
							b.mustBring(b.close(a.No))
							granted.Add(-1)
						}
						break
					}
					w, err := b.Borrow(t.Context(), home, 4, 1)
					if err != nil {
						t.Error(err)
						return
					}
					if w.Remaining == 0 {
						refused++
						break
					}
				}
			}
		})
	}
	all.Wait()
	w, err := b.Borrow(t.Context(), item, 4, 1)
	require.NoError(t, err)
	// A unit that returned after a shard's last refusal is free.
	require.Equal(t, "granted and free", granted.Load()+w.Remaining, int64(420))
	if w.Remaining > 3 {
		t.Errorf("%d units are free although every shard was told that there are none", w.Remaining)
	}
	b.proven()
}

// An order that is paid late gets units of the backup, whichever shard has them.
func TestLatePaymentFindsTheBackupOfAnotherShard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 400)
	n.Backup = 2
	item, epoch := b.sharded(n)
	for k, kept := range []bool{true, true, false} {
		a := at(int16(k)+1, 0)
		home := item.Counter(int16(k) + 1)
		b.sell(home, epoch, a)
		b.mustBring(b.close(a.No))
		var o orderevent.Order
		b.inTx(func(tx pgx.Tx) error {
			o = b.orders.set(a.No, orderevent.StatusPaid)
			took, err := b.Retake(t.Context(), tx, &o)
			require.Equal(t, "taken up again", took, kept)
			return err
		})
		if !kept {
			b.orders.set(a.No, orderevent.StatusClosed)
			continue
		}
		o.Reason = orderevent.ReasonBackup
		b.mustBring(o)
	}
	b.proven()
}

// The preflight says when several shards pay.
func TestPreflightOfShards(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shards, nodes int
		need          preflight.Need
		level         preflight.Level
	}{
		"a usual sale":                  {1, 1, preflight.Need{Units: 500}, preflight.OK},
		"more units than a node does":   {1, 3, preflight.Need{Units: 100_000}, preflight.Warning},
		"for few shoppers":              {1, 3, preflight.Need{Units: 100_000, Shoppers: 50_000}, preflight.OK},
		"spread over a cluster":         {3, 3, preflight.Need{Units: 100_000}, preflight.OK},
		"spread over nothing":           {3, 1, preflight.Need{Units: 500}, preflight.Warning},
		"more than a node, on one node": {1, 1, preflight.Need{Units: 100_000}, preflight.Warning},
	} {
		require.Equal(t, name, shardsFound(c.shards, c.nodes, c.need)[0].Level, c.level)
	}
	b := setup(t)
	found, err := b.Preflight()[0].Look(t.Context(), preflight.Need{Units: 500})
	require.Equal(t, "a Redis that is no cluster", fmt.Sprint(len(found), " ", found[0].Level, " ", err), "1 ok <nil>")
}
