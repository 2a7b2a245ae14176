package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/compare"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/require"
)

// reconcileNow returns the differences of item 1 as "kind repair".
func (b *bundle) reconcileNow(repair bool) []string {
	b.t.Helper()
	r, err := b.Reconcile(b.t.Context(), 1, repair)
	require.NoError(b.t, err)
	require.Equal(b.t, "items", r.Items, 1)
	list := make([]string, len(r.Differences))
	for i, d := range r.Differences {
		list[i] = d.Kind + " " + d.Repair
	}
	return list
}

// Every difference that an order proves is named with its cause, repaired and audited; before and after, two runs
// give the same answer.
func TestReconcileRepairsWhatOrdersProve(t *testing.T) {
	t.Parallel()
	s := midSale(t)
	require.Equal(t, "in mid-sale", s.reconcileNow(false), []string{})
	s.pay(s.unpaid.No)
	s.close(s.closed.No)
	s.inTx(func(tx pgx.Tx) error { // the writer, before it notes that in Redis
		s.orders.put(s.item, s.inFlight, s.epoch, orderevent.StatusPending)
		return s.Deduct(t.Context(), tx, []Movement{{Key: Key{ItemID: 1}, Quantity: 3}})
	})
	s.inTx(func(tx pgx.Tx) error { return s.Change(t.Context(), tx, 1, Change{Paused: new(true)}) })
	s.rdb.HDel(t.Context(), s.item.BuyersKey(), "1")
	s.rdb.HSet(t.Context(), s.item.BuyersKey(), "9", ids.NewFor(9).String()+":1")
	want := func(state string) []string {
		var list []string
		for _, kind := range []string{"behind", "buyer", "ended", "no-buyer", "uncommitted", "written"} {
			list = append(list, kind+" "+state)
		}
		return list
	}
	for run := range 2 {
		require.Equal(t, fmt.Sprint("dry run ", run), s.reconcileNow(false), want(compare.RepairPossible))
	}
	require.Equal(t, "repaired", s.reconcileNow(true), want(compare.RepairDone))
	for run := range 2 {
		require.Equal(t, fmt.Sprint("after the repair, run ", run), s.reconcileNow(run == 0), []string{})
	}
	s.mustBeClean()
	st := s.state(s.item)
	require.Equal(t, "state", fmt.Sprint(st.Remaining, st.Committed, st.Paused, st.Seq-st.Persisted), "14 3 true 0")
	entries, err := audit.List(t.Context(), s.db, audit.Filter{Subject: "item 1", Action: "item.reconcile"})
	if err != nil || len(entries) != 1 || !strings.Contains(string(entries[0].Detail), `"uncommitted": 1`) {
		t.Errorf("audit %+v, %v", entries, err)
	}
	require.Equal(t, "alarms", len(s.differs()), 0)
}

// A difference that no order proves is left as it is: a repair reports it with its cause and raises the alarm, every
// time.
func TestReconcileLeavesWhatNeedsADecision(t *testing.T) {
	t.Parallel()
	s := midSale(t)
	no := ids.NewFor(9).String()
	s.rdb.HSet(t.Context(), s.item.UsersKey(s.epoch), "9", no)
	s.rdb.HSet(t.Context(), s.item.BuyersKey(), "9", no+":1")
	s.rdb.HSet(t.Context(), s.item.StateKey(), "rev", 7)
	want := []string{"difference none", "redis none", "rev-ahead none", "unknown none"}
	before := s.state(s.item)
	for _, repair := range []bool{false, true, true} {
		require.Equal(t, "found", s.reconcileNow(repair), want)
	}
	require.Equal(t, "state", s.state(s.item), before)
	if l := s.differs(); len(l) != 1 || l[0].Count != 2 || l[0].Subject != "item 1" {
		t.Errorf("alarms %+v", l)
	}
	r, err := s.Reconcile(t.Context(), 0, false)
	if err != nil || !slices.ContainsFunc(r.Differences, func(d compare.Difference) bool { return strings.Contains(d.Cause, "lost commits") }) {
		t.Errorf("no cause: %+v %v", r, err)
	}
	_, err = s.Reconcile(t.Context(), 404, false)
	require.ErrorIs(t, err, ErrNoStock)
	s.store.Books = booksThen{s.orders, func() { _, err = s.Reconcile(t.Context(), 1, false) }}
	s.reconcileNow(false)
	require.ErrorIs(t, err, compare.ErrReconciling)
}

// Redis was restarted: an item on sale waits for its Load, one whose sale is over does not. Neither does a paused one
// that was never loaded, as in an activity that was terminated early.
func TestClosedAndPausedItemsWaitForNoLoad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 5))
	b.rdb.HSet(t.Context(), item.StateKey(), "run_id", "another")
	for _, want := range []int{1, 0} {
		r, err := b.Reconcile(t.Context(), 0, false)
		require.NoError(t, err)
		require.Equal(t, "items", r.Items, 1)
		require.Equal(t, "differences", len(r.Differences), want)
		b.end(item)
	}
	terminated := b.create(onSale(2, 5))
	b.inTx(func(tx pgx.Tx) error { return b.Change(t.Context(), tx, terminated.ID, Change{Paused: new(true)}) })
	r, err := b.Reconcile(t.Context(), terminated.ID, false)
	require.Equal(t, "paused", fmt.Sprint(len(r.Differences), err, b.violations("I2")), "0 <nil> []")
}

// After a sale, an item that does not agree with its orders is reconciled before its keys may go.
func TestEndedItemIsReconciled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 5))
	b.close(b.written(item, 1)) // no event
	b.end(item)
	b.settles(0)
	require.Equal(t, "remaining", b.state(item).Remaining, 5)
	b.settles(1)
	entries, err := audit.List(t.Context(), b.db, audit.Filter{Action: "item.reconcile"})
	require.Equal(t, "audited", fmt.Sprint(len(entries), err), "1 <nil>")
	// What cannot be repaired is found in every round, and recorded in none.
	item, epoch := b.loaded(onSale(2, 5))
	b.rdb.HSet(t.Context(), item.UsersKey(epoch), "9", ids.NewFor(9).String())
	b.end(item)
	for range 2 {
		b.settles(0)
	}
	entries, err = audit.List(t.Context(), b.db, audit.Filter{Action: "item.reconcile"})
	require.Equal(t, "audited, and alarms", fmt.Sprint(len(entries), err, b.differs()[0].Count), "1 <nil> 2")
}
