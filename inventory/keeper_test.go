package inventory

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/deadletters"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// breakUsers gives an item's list of holders another type, which every script
// rejects, and returns the repair.
func (b *bundle) breakUsers(item Item) (repair func()) {
	b.t.Helper()
	key := item.usersKey(b.state(item).Epoch)
	do := func(err error) {
		b.t.Helper()
		require.NoError(b.t, err)
	}
	do(b.rdb.Rename(b.t.Context(), key, item.base()+"kept").Err())
	do(b.rdb.Set(b.t.Context(), key, "x", 0).Err())
	return func() { b.t.Helper(); do(b.rdb.Rename(b.t.Context(), item.base()+"kept", key).Err()) }
}

// closedOrder is an order whose end has not reached Redis.
func (b *bundle) closedOrder(item Item, user int64) orderevent.Order {
	b.t.Helper()
	return b.close(b.written(item, user))
}

// More events of a dead item than the broker delivers without an acknowledgement
// do not delay an event of a healthy item.
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
	b.work(b.runKeepers)
	stop, err := broker.Subscribe(t.Context(), b.Subscriptions(), deadletters.Keeper(b.db))
	require.NoError(t, err)
	defer stop(t.Context())
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(healthy).Remaining == 3 }, "the healthy item gets its unit back")
}

// What does not fit on an item's work list marks the item, and takes no memory.
func TestWorkListIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, other := Item{ID: 1}, Item{ID: 2}
	for range 3 {
		require.NoError(t, b.note(item, make([]hint, mostHints/2+1)))
	}
	require.NoError(t, b.note(other, make([]hint, 1)))
	list := b.keepers.of[item]
	mustBe(t, "on the list", len(list.waiting), mostHints)
	mustBe(t, "to be compared", list.whole, true)
	mustBe(t, "the other item's", b.keepers.of[other].whole, false)
}

// At a stop the keepers apply what they have, and refuse what comes later, so
// that it is delivered to another instance.
func TestStopAppliesWorkLists(t *testing.T) {
	t.Parallel()
	b := setup(t)
	broken, _ := b.loaded(onSale(1, 3))
	item, _ := b.loaded(onSale(2, 3))
	first, second := b.closedOrder(broken, 1), b.closedOrder(item, 1)
	defer b.breakUsers(broken)()
	require.NoError(t, b.deliver(orderevent.SubjectClosed, first, second))
	b.work(b.runKeepers)()
	mustBe(t, "remaining", b.state(item).Remaining, 3)
	if err := b.deliver(orderevent.SubjectClosed, first); !errors.Is(err, errStopping) || !bus.IsExpected(err) {
		t.Errorf("after the stop: %v", err)
	}
}

// A release that Redis rejects is retried, and after a while raises an alarm for
// its item.
func TestReleaseThatKeepsFailingAsksForAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.keepers.alarmAfter, b.keepers.alarmEvery = 200*time.Millisecond, 100*time.Millisecond
	item, _ := b.loaded(onSale(1, 3))
	closed := b.closedOrder(item, 1)
	raised := func() []alarm.Alarm {
		t.Helper()
		l, err := alarm.List(t.Context(), b.db, alarm.Filter{Code: alarmReleaseFailing.Code})
		require.NoError(t, err)
		return l
	}
	repair := b.breakUsers(item)
	b.work(b.runKeepers)
	require.NoError(t, b.deliver(orderevent.SubjectClosed, closed))
	pgtest.Eventually(t, 30*time.Second, func() bool { l := raised(); return len(l) == 1 && l[0].Count > 1 }, "the alarm, twice")
	if l := raised(); l[0].Subject != "item 1" || l[0].Detail == "" {
		t.Errorf("alarm %+v", l[0])
	}
	repair()
	pgtest.Eventually(t, 2*retryMost, func() bool { return b.state(item).Remaining == 3 }, "the release")
	mustFail(t, b.AwaitKeepers(t.Context()), nil)
	mustBe(t, "work lists", len(b.keepers.of), 0)
}

// A panic in one item's call is that item's failure.
func TestPanicIsItsItemsFailure(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.deps.Redis = nil
	hints := []hint{{status: orderevent.StatusPaid}}
	left, err := b.applyHints(t.Context(), Item{ID: 1}, hints)
	if err == nil || len(left) != 1 {
		t.Errorf("left %d, error %v", len(left), err)
	}
}
