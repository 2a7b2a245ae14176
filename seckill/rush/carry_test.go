package rush

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
)

// otherRun makes the states of all items name a past run of Redis, as a restart
// with its data does.
func (y *bundle) otherRun() { y.SetState("run_id", strings.Repeat("0", 40)) }

// The server was killed, NATS lost its folder and Redis was restarted with its
// data: a number that was answered 202 becomes an order before the item sells
// again, and no unit is given twice.
func TestLoadPublishesGrantsWhoseMessagesWereLost(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(3)
	before := y.instance([]*catalogue.Item{it})
	written, _ := before.buy(1, it)
	y.SettleAll(1)
	queued, a := before.buy(2, it)
	a.want(t, "", http.StatusAccepted, "")

	y.Bus = bustest.Open(t)
	y.otherRun()
	y.Stock = y.NewStock(func(c *inventory.Config) { c.SingleInstance, c.PublishDeadline = true, time.Minute })
	after := y.instance([]*catalogue.Item{it})
	y.Write()
	y.Load(it)

	for _, p := range []rushPath{written, queued} {
		if o, ok, _ := y.Orders.Get(t.Context(), parse(t, p.OrderNo)); !ok || o.Status != orderevent.StatusPending {
			t.Errorf("number %s has the order %+v", p.OrderNo, o)
		}
		if a := after.send(p.Path); a.Status != http.StatusAccepted || a.OrderNo != p.OrderNo || a.State != orderevent.StatusPending {
			t.Errorf("sent again: %+v", a)
		}
	}
	if st := after.state(it); st.Remaining != 1 || !st.Ready() || y.Orders.Twice != 0 {
		t.Errorf("%+v, %d orders created twice", st, y.Orders.Twice)
	}
	republished := seckilltest.Counted(t, after.metrics, "stampede_seckill_swept_holds_total", "republished")
	require.Equal(t, "grants published again", republished, 1)
}

// A path whose order was closed gets the end of its number after a Load too,
// also from an instance that did not grant it, while a flag refuses strangers.
func TestClosedNumberKeepsItsAnswerAfterALoad(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	before := y.instance([]*catalogue.Item{it})
	first, _ := before.buy(1, it)
	y.Write()
	pgtest.Eventually(t, 30*time.Second, func() bool { return before.state(it).Persisted == 1 }, "the order written")
	y.Close(parse(t, first.OrderNo))
	if _, a := before.buy(2, it); a.Status != http.StatusAccepted {
		t.Fatalf("%+v", a)
	}
	y.otherRun()
	y.Load(it)

	after := y.instance([]*catalogue.Item{it}, func(c *Config) { c.FlagLife = time.Minute })
	if _, a := after.buy(3, it); a.Code != "all-held" {
		t.Fatalf("%+v", a)
	}
	mustBeUp(t, after, it, outAllHeld)
	if a := after.send(first.Path); a.Status != http.StatusAccepted || a.OrderNo != first.OrderNo || a.State != orderevent.StatusClosed {
		t.Errorf("sent again: %+v", a)
	}
	if _, a := after.buy(1, it); a.Code != "all-held" {
		t.Errorf("another path of its user: %+v", a)
	}
}
