package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/inventoryevent"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/deadletters"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// breakUsers gives an item's list of holders another type, which every script rejects, and returns the repair.
func (b *bundle) breakUsers(item Item) (repair func()) {
	b.t.Helper()
	key := item.UsersKey(b.state(item).Epoch)
	do := func(err error) {
		b.t.Helper()
		require.NoError(b.t, err)
	}
	do(b.rdb.Rename(b.t.Context(), key, item.StateKey()+"kept").Err())
	do(b.rdb.Set(b.t.Context(), key, "x", 0).Err())
	return func() { b.t.Helper(); do(b.rdb.Rename(b.t.Context(), item.StateKey()+"kept", key).Err()) }
}

// closedOrder is an order whose end has not reached Redis.
func (b *bundle) closedOrder(item Item, user int64) orderevent.Order {
	b.t.Helper()
	return b.close(b.written(item, user))
}

// More events of a dead item than the broker delivers without an acknowledgement do not delay an event of a healthy
// item.
func TestDeadItemDelaysNoOtherItem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dead, _ := b.loaded(onSale(1, 3))
	healthy, _ := b.loaded(onSale(2, 3))
	closed := b.closedOrder(healthy, 1)
	b.breakUsers(dead)
	broker := bustest.Open(t, func(c *bus.Config) { c.PublishDeadline = time.Minute }) // for 1,100 publishes at once on a busy machine
	var events []bus.Outgoing
	publish := func(o orderevent.Order) {
		t.Helper()
		data, err := json.Marshal(orderevent.Changed{Orders: []orderevent.Order{o}})
		require.NoError(t, err)
		events = append(events, bus.Outgoing{Subject: orderevent.SubjectClosed, ID: ids.New(), Data: data})
	}
	for user := range int64(1100) { // MaxAckPending is 1000
		publish(orderevent.Order{No: ids.NewFor(user), UserID: user, ItemID: dead.ID, ActivityID: dead.ActivityID, Epoch: 1, Status: orderevent.StatusClosed})
	}
	publish(closed)
	require.NoError(t, errors.Join(broker.PublishAll(t.Context(), events)...))
	pgtest.Work(t, b.Run)
	stop, err := broker.Subscribe(t.Context(), b.Subscriptions(), deadletters.Keeper(b.db))
	require.NoError(t, err)
	defer stop(t.Context())
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(healthy).Remaining == 3 }, "the healthy item gets its unit back")
}

// At a stop the keepers apply what they have and what waits for its time, and refuse what comes later, so that it is
// delivered to another instance.
func TestStopAppliesWorkLists(t *testing.T) {
	t.Parallel()
	b := setup(t)
	broken, _ := b.loaded(onSale(1, 3))
	item, _ := b.loaded(onSale(2, 3))
	first, second, later := b.closedOrder(broken, 1), b.closedOrder(item, 1), b.closedOrder(item, 2)
	defer b.breakUsers(broken)()
	require.NoError(t, b.deliver(orderevent.SubjectClosed, first, second))
	b.store.UnitsReturnWithin = time.Minute
	require.NoError(t, b.deliver(orderevent.SubjectClosed, later))
	pgtest.Work(t, b.Run)()
	require.Equal(t, "remaining", b.state(item).Remaining, 3)
	require.Equal(t, "expected after the stop", bus.IsExpected(b.deliver(orderevent.SubjectClosed, first)), true)
}

// A release that Redis rejects is retried, and after a while raises an alarm for its item.
func TestReleaseThatKeepsFailingAsksForAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.store.AlarmAfter, b.store.AlarmEvery = 200*time.Millisecond, 100*time.Millisecond
	item, _ := b.loaded(onSale(1, 3))
	closed := b.closedOrder(item, 1)
	raised := func() []alarm.Alarm {
		t.Helper()
		l, err := alarm.List(t.Context(), b.db, alarm.Filter{Code: "release-failing"})
		require.NoError(t, err)
		return l
	}
	repair := b.breakUsers(item)
	pgtest.Work(t, b.Run)
	require.NoError(t, b.deliver(orderevent.SubjectClosed, closed))
	pgtest.Eventually(t, 30*time.Second, func() bool { l := raised(); return len(l) == 1 && l[0].Count > 1 }, "the alarm, twice")
	if l := raised(); l[0].Subject != "item 1" || l[0].Detail == "" {
		t.Errorf("alarm %+v", l[0])
	}
	repair()
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(item).Remaining == 3 }, "the release")
	pgtest.Eventually(t, 30*time.Second, b.Idle, "the keeper ends")
}

// returnsWithin makes units of closed orders return within a time.
func (b *bundle) returnsWithin(within time.Duration) {
	b.store.UnitsReturnWithin = within
}

// The units of a closed or refunded order return by themselves, later than its end; until then no check calls them an
// orphan and no comparison returns them.
func TestUnitsReturnLater(t *testing.T) {
	t.Parallel()
	for subject, end := range map[string]func(b *bundle, no ids.ID) orderevent.Order{
		orderevent.SubjectClosed: func(b *bundle, no ids.ID) orderevent.Order { return b.close(no) },
		orderevent.SubjectRefunded: func(b *bundle, no ids.ID) orderevent.Order {
			b.mustBring(b.pay(no))
			return b.refund(no, false)
		},
	} {
		t.Run(subject, func(t *testing.T) { t.Parallel(); unitsReturnLater(t, subject, end) })
	}
}

func unitsReturnLater(t *testing.T, subject string, end func(b *bundle, no ids.ID) orderevent.Order) {
	t.Helper()
	b := setup(t)
	b.returnsWithin(400 * time.Millisecond)
	item, _ := b.loaded(onSale(1, 3))
	require.NoError(t, b.deliver(subject, end(b, b.written(item, 1))))
	require.Equal(t, "remaining before the keepers run", b.state(item).Remaining, 2)
	repaired, found, err := b.CompareOrders(t.Context(), item, 0)
	require.Equal(t, "a comparison", fmt.Sprint(repaired, found, err), "0 [] <nil>")
	c, err := b.ReadCut(t.Context(), item.ID)
	require.NoError(t, err)
	require.Equal(t, "differences while the unit waits", fmt.Sprint(c.Differences()), "[]")
	require.Equal(t, "release pending", c.Sum().ReleasePending, 1)
	pgtest.Work(t, b.Run)
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(item).Remaining == 3 }, "the unit to return")
}

// The events of order cause releases and commits, packed and for several items.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	i1, e1 := b.loaded(onSale(1, 2))
	i2, e2 := b.loaded(onSale(2, 2))
	x, y, z := one(1), one(2), one(3)
	b.reserve(i1, e1, x, y)
	b.reserve(i2, e2, z)
	b.write(i1, e1, x, y)
	b.write(i2, e2, z)
	pgtest.Work(t, b.Run)
	deliver := func(subject string, orders ...orderevent.Order) {
		t.Helper()
		require.NoError(t, b.tell(subject, orders...))
	}
	deliver(orderevent.SubjectPaid, b.pay(x.No))
	require.Equal(t, "committed", b.state(i1).Committed, 1)
	require.Equal(t, "while one is unpaid", only(t, b.reserve(i1, e1, one(9))).Verdict, AllHeld)
	closed, other := b.close(y.No), b.close(z.No)
	deliver(orderevent.SubjectClosed, closed, other)
	require.Equal(t, "returned", b.state(i1).Remaining, 1)
	require.Equal(t, "returned of the other item", b.state(i2).Remaining, 2)
	require.Equal(t, "broadcasts", b.bus.count(inventoryevent.SubjectReturned), 2)
	deliver(orderevent.SubjectClosed, closed, other)
	require.Equal(t, "no broadcast for a repetition", b.bus.count(inventoryevent.SubjectReturned), 2)
	require.Equal(t, "its path again", only(t, b.reserve(i1, e1, y)).Verdict, Finished)

	again := one(2)
	b.reserve(i1, e1, again)
	deliver(orderevent.SubjectRefused, b.orders.put(i1, again, e1, orderevent.StatusRefused))
	require.Equal(t, "refused before a row was seen: persisted", b.state(i1).Persisted, b.state(i1).Seq)
	last := one(4)
	b.sell(i1, e1, last)
	deliver(orderevent.SubjectPaid, b.pay(last.No))
	require.Equal(t, "all paid", only(t, b.reserve(i1, e1, one(10))).Verdict, SoldOut)
	require.Equal(t, "a malformed event is handled", b.Subscriptions()[0].Handle(t.Context(), bus.Msg{Data: []byte("{")}) == nil, false)
}

// The end of an order waits while its item is fenced or missing, unless the sale is over and its keys are gone: then
// only Postgres has the books.
func TestEndsWaitForLoad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 2))
	paid, closed := one(1), one(2)
	b.sell(item, epoch, paid, closed)
	payment, closing := b.pay(paid.No), b.close(closed.No)
	bothAnswer := func(want error) {
		t.Helper()
		require.ErrorIs(t, b.bring(item, payment), want)
		require.ErrorIs(t, b.bring(item, closing), want)
	}
	b.rdb.HSet(t.Context(), item.StateKey(), "fenced", epoch+1)
	bothAnswer(ErrFenced)
	b.rdb.FlushDB(t.Context())
	bothAnswer(ErrFenced)
	b.load(item)
	bothAnswer(nil)
	st := b.state(item)
	require.Equal(t, "books", fmt.Sprint(st.Remaining, st.Committed), "1 1")
	require.Equal(t, "the closed number", only(t, b.reserve(item, st.Epoch, closed)).Verdict, Finished)

	b.inTx(func(tx pgx.Tx) error {
		past, earlier := time.Now().Add(-time.Second), time.Now().Add(-time.Hour)
		return b.Change(t.Context(), tx, item.ID, Change{OpensAt: &earlier, ClosesAt: &past})
	})
	b.rdb.HSet(t.Context(), item.StateKey(), "fenced", st.Epoch+1) // nothing loads it any more
	bothAnswer(nil)
	require.NoError(t, b.Forget(t.Context(), item))
	bothAnswer(nil)
	b.inTx(func(tx pgx.Tx) error { return b.Delete(t.Context(), tx, []int64{item.ID}) })
	bothAnswer(nil)
}
