package inventory

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/books"
	"stampede/inventory/compare"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// retake turns a closed order into a paid one in Postgres only; the event comes separately.
func (b *bundle) retake(no ids.ID) orderevent.Order {
	b.t.Helper()
	ok, o := b.tryRetake(no)
	require.Equal(b.t, "taken up again", ok, true)
	return o
}

func (b *bundle) tryRetake(no ids.ID) (ok bool, o orderevent.Order) {
	b.t.Helper()
	b.inTx(func(tx pgx.Tx) (err error) {
		b.orders.mu.Lock()
		defer b.orders.mu.Unlock()
		if ok, err = b.Retake(b.t.Context(), tx, b.orders.all[no]); err != nil || !ok {
			return err
		}
		b.orders.all[no].Status, b.orders.all[no].Reason = orderevent.StatusPaid, orderevent.ReasonBackup
		o = *b.orders.all[no]
		return nil
	})
	return ok, o
}

// mustAgree proves that at this moment no unit is sold twice in either count, and that the counts differ by nothing
// but work on its way.
func (b *bundle) mustAgree(what string, item Item) *books.Cut {
	b.t.Helper()
	c, err := b.ReadCut(b.t.Context(), item.ID)
	require.NoError(b.t, err)
	require.Equal(b.t, what, fmt.Sprint(c.Oversold(), c.Sum().Difference), "[] 0")
	return c
}

// A late payment takes a unit of the backup once, in whatever order its event, the release of the closing, a Load, a
// comparison and a refund reach Redis, and after each step both counts agree.
func TestRetakeInAnyOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const release, event, again, load, compared, added = "release", "event", "event again", "load", "comparison", "stock added"
	kinds := map[string]func(*NewStock){
		"plain": func(*NewStock) {},
		"once per activity": func(n *NewStock) {
			n.Rebuy, n.PerActivity, n.ActivityID = false, true, n.ID
		},
	}
	id := int64(0)
	random := rand.New(rand.NewPCG(3, 4)) // the same orders in every run
	for kind, change := range kinds {
		for range 6 {
			steps := []string{release, event, again, load, compared, added}
			random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
			id++
			n := onSale(id, 5)
			n.Backup, n.UserLimit = 3, 2
			change(&n)
			item, epoch := b.loaded(n)
			late, other := Attempt{User: 1, No: ids.NewFor(1), Quantity: 2}, one(2)
			b.sell(item, epoch, late, other)
			b.mustBring(b.pay(other.No))
			closed := b.close(late.No)
			paid := b.retake(late.No)
			units := int64(4)
			for i, step := range steps {
				switch step {
				case release:
					b.mustBring(closed)
				case event, again:
					require.NoError(t, b.bring(item, paid))
				case load:
					b.load(item)
				case compared:
					_, found, err := b.CompareOrders(t.Context(), item, 0)
					require.Equal(t, "found", fmt.Sprint(found, err), "[] <nil>")
				case added:
					more := int32(1)
					b.change(item, Change{AddStock: &more})
					units++
				}
				b.mustAgree(fmt.Sprintf("%s, %v, step %d", kind, steps, i), item)
			}
			st := b.state(item)
			require.Equal(t, fmt.Sprintf("%v: remaining, total, taken up, paid for", steps),
				fmt.Sprint(st.Remaining, st.Total, st.Retaken, st.Committed), fmt.Sprint(units, units+3, 2, 3))
			// Refunded, the units are on sale, or written off, like any others.
			writeOff, back := id%2 == 0, int64(2)
			if writeOff {
				back = 0
			}
			refunded := b.refund(late.No, writeOff)
			for range 2 {
				require.NoError(t, b.bring(item, refunded))
				require.NoError(t, b.bring(item, paid))
			}
			st = b.state(item)
			require.Equal(t, fmt.Sprintf("%v: remaining, total after the refund, written off %v", steps, writeOff),
				fmt.Sprint(st.Remaining, st.Total), fmt.Sprint(units+back, units+1+back))
			b.mustAgree("refunded", item)
		}
	}
	b.mustBeClean()
}

// The late payment of a user who has a new grant, which Postgres is about to refuse, waits until that is released.
func TestRetakeWaitsForAnotherNumber(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.store.RetakeAgain = time.Millisecond
	n := onSale(1, 5)
	n.Backup = 1
	item, epoch := b.loaded(n)
	late, newer := one(1), one(1)
	b.sell(item, epoch, late)
	b.mustBring(b.close(late.No))
	require.Equal(t, "the newer one", only(t, b.reserve(item, epoch, newer)).Verdict, Granted)
	pgtest.Work(t, b.Run)
	require.NoError(t, b.deliver(orderevent.SubjectPaid, b.retake(late.No)))
	b.mustAgree("while it waits", item)
	require.NoError(t, b.deliver(orderevent.SubjectRefused, b.orders.put(item, newer, epoch, orderevent.StatusRefused)))
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(item).Retaken == 1 }, "the number to be taken up")
	require.Equal(t, "remaining", b.state(item).Remaining, 5)
	b.mustBeClean()
}

// The checks name an event of a late payment that was never applied, and a repair applies it; units that left the
// backup for no order are named too.
func TestChecksKnowTheBackup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 5)
	n.Backup = 2
	item, epoch := b.loaded(n)
	b.reserve(item, epoch, one(9))
	late := b.closedOrder(item, 1)
	b.retake(late.No)
	want := []string{"retake " + compare.RepairDone, "uncommitted " + compare.RepairDone}
	require.Equal(t, "an event that was lost", b.reconcileNow(true), want)
	b.mustBeClean()
	b.sql(`DELETE FROM inventory.retaken`)
	require.Equal(t, "a unit without an order", b.reconcileNow(true), []string{"retaken " + compare.RepairNone})
}

// A late payment of an item whose sale is over keeps its keys until Redis counts it. After the settlement it is
// Postgres's alone.
func TestRetakeAfterTheSale(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 5)
	n.Backup = 2
	item, _ := b.loaded(n)
	first, second := b.closedOrder(item, 1), b.closedOrder(item, 2)
	b.mustBring(first)
	b.mustBring(second)
	b.end(item)
	paid := b.retake(first.No)
	b.settles(0)
	b.mustAgree("reconciled instead", item)
	require.Equal(t, "taken up", b.state(item).Retaken, 1)
	b.settles(1)
	late := b.retake(second.No)
	for _, o := range []orderevent.Order{paid, late} {
		b.mustBring(o)
	}
	require.Equal(t, "keys", b.keys(), 0)
	b.mustBeClean()
	row, _, err := b.Book(t.Context(), item.ID)
	require.Equal(t, "books", row, BookRow{ItemID: 1, Total: 7, Available: 5, Sold: 2})
	require.NoError(t, err)
}
