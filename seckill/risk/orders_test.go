package risk

import (
	"testing"

	"stampede/order/orderevent"
	"stampede/platform/workshop/pgtest"
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
	if err := y.db.QueryRow(t.Context(), `SELECT order_no FROM risk.holds`).Scan(&o.No); err != nil {
		t.Fatal(err)
	}
	i.tell(orderevent.SubjectPaid, o)
	if err := i.recount(t.Context(), UnpaidHolds); err != nil {
		t.Fatal(err)
	}
	if err := i.Door(t.Context(), i.applicant(1, item)); err != nil {
		t.Fatal(err)
	}
}
