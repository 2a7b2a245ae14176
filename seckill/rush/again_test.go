package rush

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

// countedOrders counts the reads of orders.
type countedOrders struct {
	Orders
	asked atomic.Int64
}

func (o *countedOrders) Get(ctx context.Context, no ids.ID) (orderevent.Order, bool, error) {
	o.asked.Add(1)
	return o.Orders.Get(ctx, no)
}

// refusing are the ways in which an item's sale refuses every attempt.
var refusing = map[string]struct {
	how    func(i *instance, it *catalogue.Item)
	status int
	code   string
	unsure bool // Redis cannot confirm a hold that has no order
}{
	"paused": {status: 503, code: "paused", how: func(i *instance, it *catalogue.Item) { i.change(it, inventory.Change{Paused: new(true)}) }},
	"fenced": {status: 503, code: "fenced", how: func(i *instance, _ *catalogue.Item) { i.SetState("fenced", 99) }},
	"another run of Redis": {status: 503, code: "fenced", unsure: true, how: func(i *instance, _ *catalogue.Item) {
		i.SetState("run_id", strings.Repeat("0", 40))
	}},
	"over by the window": {status: 410, code: "ended", how: func(i *instance, it *catalogue.Item) {
		over := *it
		over.ClosesAt = time.Now().Add(-time.Minute)
		i.listing.Show(&over)
	}},
	"over by Redis": {status: 410, code: "ended", how: func(i *instance, it *catalogue.Item) {
		i.change(it, inventory.Change{ClosesAt: new(time.Now().Add(-time.Second))})
	}},
	"terminated": {status: 410, code: "ended", how: func(i *instance, it *catalogue.Item) {
		over := *it
		over.OnSale = false
		i.listing.Show(&over)
	}},
	"forgotten": {status: 410, code: "ended", unsure: true, how: func(i *instance, _ *catalogue.Item) { i.listing.Show() }},
	"stream unhealthy": {status: 503, code: "unavailable", how: func(i *instance, _ *catalogue.Item) {
		i.rush.lanes.grants = &faultyStream{grants: i.queue, healthy: func() error { return errors.New("broken on purpose") }}
	}},
}

// A 202 is repeated while the sale refuses every other attempt, by the instance
// that gave it and, as far as Redis and the orders can tell, by one that has
// just started.
func TestRepeatedPathIsAnsweredWhileTheSaleRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range refusing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			it := y.Item(10)
			old, fresh := y.instance([]*catalogue.Item{it}), y.instance([]*catalogue.Item{it})
			old.buy(1, it)
			bought, closed, queued := old.issue(2, it, 1), old.issue(3, it, 1), old.issue(4, it, 1)
			for _, p := range []rushPath{bought, closed} {
				old.send(p.Path).want(t, "", http.StatusAccepted, "")
			}
			y.SettleAll(3)
			y.Close(parse(t, closed.OrderNo))
			first := old.send(queued.Path)
			first.accepted(t, "in line", queued, orderevent.StatusQueued)
			never := old.issue(5, it, 1)
			for _, i := range []*instance{old, fresh} {
				c.how(i, it)
			}
			for who, i := range map[string]*instance{"the same instance": old, "another instance": fresh} {
				i.send(bought.Path).accepted(t, who+", with an order", bought, orderevent.StatusPending)
				i.send(closed.Path).accepted(t, who+", with a closed order", closed, orderevent.StatusClosed)
				again := i.send(queued.Path)
				if i == fresh && c.unsure {
					again.want(t, who+", in line", c.status, c.code)
				} else if again.accepted(t, who+", in line", queued, orderevent.StatusQueued); again.Position > first.Position {
					t.Errorf("position %d after %d", again.Position, first.Position)
				}
				i.send(never.Path).want(t, who+", a stranger", c.status, c.code)
			}
			if old.answers(it.ID)["repeated"] != 3 && name != "forgotten" {
				t.Errorf("funnel %v", old.answers(it.ID))
			}
		})
	}
}

// A grant whose publication stayed unknown was never answered 202, and memory
// does not answer it so either.
func TestUnknownPublicationIsNoProof(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	i.rush.lanes.grants = &faultyStream{grants: i.queue, publish: func(func() error) error { return errors.New("lost on purpose") }}
	p, a := i.buy(1, it)
	a.want(t, "lost", http.StatusServiceUnavailable, "unknown")
	i.SetState("run_id", strings.Repeat("0", 40))
	i.send(p.Path).want(t, "the other run", http.StatusServiceUnavailable, "fenced")
}

// However many strangers come to a paused sale, the lookups for them are
// bounded, and holders are answered all the same.
func TestLookupsForStrangersOfAPausedSaleAreBounded(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	holder, _ := i.buy(1, it)
	orders := &countedOrders{Orders: y.Orders}
	i.rush.deps.Orders = orders
	const looks = 5
	i.rush.strangers = rate.NewLimiter(0, looks)
	i.change(it, inventory.Change{Paused: new(true)})
	for u := range int64(50) {
		i.send(i.issue(100+u, it, 1).Path).want(t, "a stranger", http.StatusServiceUnavailable, "paused")
	}
	require.Equal(t, "strangers who were looked up", orders.asked.Load(), looks)
	i.send(holder.Path).want(t, "the holder", http.StatusAccepted, "")
}

// A pause refuses new attempts only: a number that was granted gets its first
// answer again.
func TestPauseRefusesNewAttemptsOnly(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it, free := y.Item(2), y.Item(0, func(it *catalogue.Item) { it.Unlimited = true })
	i := y.instance([]*catalogue.Item{it, free})
	p, _ := i.buy(1, it)
	ahead := i.issue(1, free, 1)
	i.rush.deps.Paused = func(user, activity int64, _ time.Time) time.Duration {
		if user == 1 && activity == it.ActivityID {
			return time.Minute
		}
		return 0
	}
	i.send(p.Path).accepted(t, "the number that was granted", p, "")
	i.buys("a new attempt", 1, it, http.StatusTooManyRequests, "cooling-down", "60")
	i.send(ahead.Path).want(t, "an item without a limited stock", http.StatusAccepted, "")
	i.buys("another user", 2, it, http.StatusAccepted, "")
}

// Without rebuy a closed order is the last one, and its path answers with its
// status.
func TestWithoutRebuyAClosedOrderIsAlreadyBought(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	y.change(it, inventory.Change{Rebuy: new(false)})
	i := y.instance([]*catalogue.Item{it})
	p, _ := i.buy(1, it)
	y.SettleAll(1)
	y.Close(parse(t, p.OrderNo))
	for range 2 {
		again := i.buys("buying again", 1, it, http.StatusConflict, "already-bought")
		require.Equal(t, "the number in already-bought", again.OrderNo, p.OrderNo)
		i.send(p.Path).accepted(t, "the same path", p, orderevent.StatusClosed)
		y.Load(it)
	}
	i.buys("another user, of the unit", 2, it, http.StatusAccepted, "")
}
