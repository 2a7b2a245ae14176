package risk

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

func TestOpenUnpaidFollowsTheOrders(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	i := y.instance()
	y.open[1] = 3
	i.addRule(`{"kind":"open_unpaid","threshold":3,"action":"none"}`)
	if i.Door(t.Context(), i.applicant(1, item)) == nil {
		t.Fatal("three open orders and a path")
	}
	// Another instance counts after one of them has been paid.
	paid := y.instance(func(_ *Settings, d *Deps) { d.Orders = openOrders{1: 2} })
	paid.work()
	for _, at := range []*instance{paid, i} {
		pgtest.Eventually(t, inForce, func() bool {
			at.refresh()
			return at.Door(t.Context(), at.applicant(1, item)) == nil
		}, "the user is below the threshold")
	}
}

func TestAnOrderPaidAfterAllIsForgotten(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	i := y.instance()
	i.addRule(`{"kind":"unpaid_holds","threshold":1,"action":"none"}`)
	i.unpaid(1, item, 1)
	o := order(1, item, [16]byte{}, orderevent.StatusPaid, 3)
	o.Reason = orderevent.ReasonBackup
	require.NoError(t, y.db.QueryRow(t.Context(), `SELECT order_no FROM risk.holds`).Scan(&o.No))
	i.tell(orderevent.SubjectPaid, o)
	require.NoError(t, i.recount(t.Context(), UnpaidHolds))
	require.NoError(t, i.Door(t.Context(), i.applicant(1, item)))
}

// After a crash the consumer is given its events again before the catalogue is
// read, when no activity is known to be exclusive.
func TestClaimFollowsAnOrderThatArrivesBeforeTheCatalogue(t *testing.T) {
	t.Parallel()
	y := setup(t)
	first, second := y.activity("first", true), y.activity("second", true)
	before := y.instance()
	no, err := before.asks(1, first)
	requireFault(t, "the first activity", err, "")

	plan := new(starting)
	i := y.instance(func(_ *Settings, d *Deps) { d.Items = plan })
	stop, err := y.bus.Subscribe(t.Context(), i.Subscriptions(), func(context.Context, string, bus.Msg, error) error { return nil })
	require.NoError(t, err)
	defer stop(t.Context())
	payloads, err := orderevent.Pack([]orderevent.Order{order(1, first, no, orderevent.StatusPending, 1)})
	require.NoError(t, err)
	require.NoError(t, y.bus.Publish(t.Context(), orderevent.SubjectCreated, ids.New(), payloads[0]))
	pgtest.Eventually(t, 30*time.Second, func() bool { return plan.asked.Load() > 0 }, "the event is delivered")
	plan.now.Store(&y.sale)
	pgtest.Eventually(t, 30*time.Second, func() bool { return y.count(`SELECT count(*) FROM risk.claim_orders`) == 1 }, "the order holds its claim")
	y.exec(`UPDATE risk.claims SET until = clock_timestamp()`) // the path has expired
	_, err = before.asks(1, second)
	requireFault(t, "the second activity", err, "one-activity")
}

// starting is a catalogue that has not been read until now is set.
type starting struct {
	now   atomic.Pointer[onSale]
	asked atomic.Int64
}

func (s *starting) Items() []*catalogue.Item {
	s.asked.Add(1)
	if now := s.now.Load(); now != nil {
		return *now
	}
	return nil
}

func (s *starting) Ready() bool { s.asked.Add(1); return s.now.Load() != nil }
