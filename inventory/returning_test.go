package inventory

import (
	"errors"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// returnsWithin makes units of closed orders return within a time.
func (b *bundle) returnsWithin(within time.Duration) {
	b.cfg.UnitsReturnWithin = within
}

// The units of a closed or refunded order return by themselves, later than its end;
// until then no check calls them an orphan and no comparison returns them.
func TestUnitsReturnLater(t *testing.T) {
	t.Parallel()
	for subject, end := range map[string]func(b *bundle, no ids.ID) orderevent.Order{
		orderevent.SubjectClosed: func(b *bundle, no ids.ID) orderevent.Order { return b.close(no) },
		orderevent.SubjectRefunded: func(b *bundle, no ids.ID) orderevent.Order {
			b.mustCommit(b.pay(no))
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
	mustBe(t, "remaining before the keepers run", b.state(item).Remaining, 2)
	repaired, found, err := b.compareOrders(t.Context(), item, 0)
	if err != nil || repaired != 0 || len(found) != 0 {
		t.Errorf("a comparison repaired %d, found %v, %v", repaired, found, err)
	}
	c, err := b.readCut(t.Context(), item.ID)
	require.NoError(t, err)
	if found := c.differences(); len(found) != 0 {
		t.Errorf("differences while the unit waits: %v", found)
	}
	mustBe(t, "release pending", c.sum().ReleasePending, 1)
	b.work(b.runKeepers)
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(item).Remaining == 3 }, "the unit to return")
}

// Every unit has a moment of its own, none sooner than a quarter of the bound;
// orders that the shop refused do not wait.
func TestReturnsAreSpread(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.returnsWithin(time.Minute)
	hints := make([]hint, 200)
	for i := range hints {
		hints[i] = hint{no: ids.New(), status: []string{orderevent.StatusClosed, orderevent.StatusRefunded}[i/100]}
	}
	before := time.Now()
	now, err := b.postpone(Item{ID: 1}, hints)
	if err != nil || len(now) != 0 {
		t.Fatalf("%d hints do not wait, %v", len(now), err)
	}
	moments := map[time.Time]bool{}
	for _, r := range b.keepers.later {
		moments[r.at] = true
		if after := r.at.Sub(before); after < 15*time.Second || after > 2*time.Minute {
			t.Errorf("a unit returns after %s", after)
		}
	}
	if len(moments) < 190 {
		t.Errorf("%d moments for 200 units", len(moments))
	}
	refused := []hint{{no: ids.New(), status: orderevent.StatusRefused}}
	if now, err := b.postpone(Item{ID: 1}, refused); err != nil || len(now) != 1 {
		t.Errorf("a refused order waits, %v", err)
	}
	b.keepers.later = make(returns, mostReturning)
	if now, err := b.postpone(Item{ID: 1}, hints[:3]); err != nil || len(now) != 3 {
		t.Errorf("%d of 3 units return at once when too many wait, %v", len(now), err)
	}
}

// At a stop what waits returns at once, and events that arrive later are refused.
func TestStopReturnsWhatWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.returnsWithin(time.Minute)
	item, _ := b.loaded(onSale(1, 3))
	closed := b.closedOrder(item, 1)
	require.NoError(t, b.deliver(orderevent.SubjectClosed, closed))
	b.work(b.runKeepers)()
	mustBe(t, "remaining", b.state(item).Remaining, 3)
	if err := b.deliver(orderevent.SubjectClosed, closed); !errors.Is(err, errStopping) {
		t.Errorf("after the stop: %v", err)
	}
}
