package payment

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/store/pulse"
)

// closer is what the expiry asks of payments.
type closer interface {
	// OpenOf returns those of the orders that have an open payment, in groups that
	// do not wait for each other: one for each provider. It calls no provider.
	OpenOf(ctx context.Context, nos []ids.ID) (groups [][]ids.ID, err error)
	// CloseOpen closes the open payment of each order, if it has one, and returns
	// the numbers whose orders may now be closed.
	CloseOpen(ctx context.Context, nos []ids.ID) (closable []ids.ID, err error)
}

// expiry closes orders that were not paid in time. Each instance runs one; they
// share the work.
type expiry struct {
	every    time.Duration
	limit    int
	orders   *order.Service
	payments closer
	log      *slog.Logger
	pulse    *pulse.Pulse
	// closing counts the groups that wait for providers, slots bounds them.
	closing sync.WaitGroup
	slots   chan struct{}
}

// closingAtOnce is how many groups of orders may wait for their providers at a
// time. Each is at most Config.SweepLimit orders of one provider, and a healthy
// provider takes a second, so this is ample; a provider that hangs occupies
// slots only until its circuit breaker opens.
const closingAtOnce = 8

// newExpiry returns the sweeper; Run is a worker's loop.
func newExpiry(cfg Config, orders *order.Service, payments closer, log *slog.Logger, p *pulse.Pulse) *expiry {
	return &expiry{
		every: cfg.SweepEvery, limit: cfg.SweepLimit, orders: orders, payments: payments, log: log, pulse: p,
		slots: make(chan struct{}, closingAtOnce),
	}
}

// Run sweeps when a pulse finds something due, and once a second where there is no pulse,
// until ctx ends. It never fails: an order that could not be closed is retried in the
// next round or, once claimed, when its claim expires.
func (e *expiry) Run(ctx context.Context) error {
	defer e.closing.Wait()
	return app.Loop{
		Every: e.every, Due: e.pulse.Due("expiry", order.SomeDue), Do: e.sweep,
		Log: e.log, Failed: "due orders not claimed, trying again at the next tick",
	}.Run(ctx)
}

// sweep closes everything that is due, a claim at a time. It fails if nothing
// can be claimed; errors after a claim are logged.
func (e *expiry) sweep(ctx context.Context) error {
	for ctx.Err() == nil {
		claimed, err := e.orders.ClaimDue(ctx, e.limit)
		if err != nil {
			return err
		}
		if len(claimed) > 0 {
			e.close(ctx, claimed)
		}
		if len(claimed) < e.limit {
			break // no more are due; what falls due meanwhile, the next pulse finds
		}
	}
	return nil
}

// close makes the second and third step for claimed orders: immediately for
// those without an open payment, in the background for the others, so that a
// provider that hangs delays only its own orders. An order that fails here keeps
// its claim and is claimed again after it expires.
func (e *expiry) close(ctx context.Context, claimed []ids.ID) {
	groups, err := e.payments.OpenOf(ctx, claimed)
	if err != nil {
		if ctx.Err() == nil {
			e.log.WarnContext(ctx, "payments of due orders not read, retrying when their claim expires", "claimed", len(claimed), "error", err)
		}
		return
	}
	open := make(map[ids.ID]bool)
	for _, nos := range groups {
		for _, no := range nos {
			open[no] = true
		}
	}
	e.closeOrders(ctx, slices.DeleteFunc(slices.Clone(claimed), func(no ids.ID) bool { return open[no] }))
	for _, nos := range groups {
		if !e.slot(ctx) {
			e.log.WarnContext(ctx, "providers are slow, retrying due orders when their claim expires", "orders", len(nos))
			continue
		}
		e.closing.Go(func() {
			defer func() { <-e.slots }()
			e.closePaid(ctx, nos)
		})
	}
}

// slot waits up to SweepEvery for a free slot among those for providers.
func (e *expiry) slot(ctx context.Context) bool {
	select {
	case e.slots <- struct{}{}:
		return true
	case <-time.After(e.every):
	case <-ctx.Done():
	}
	return false
}

// closePaid closes the orders' payments at their provider and then the orders.
func (e *expiry) closePaid(ctx context.Context, nos []ids.ID) {
	closable, err := e.payments.CloseOpen(ctx, nos)
	if err != nil {
		// The orders that it returned are closable nevertheless.
		e.log.WarnContext(ctx, "payments of due orders not closed, retrying when their claim expires", "claimed", len(nos), "closable", len(closable), "error", err)
	}
	e.closeOrders(ctx, closable)
}

// closeOrders makes the third step for orders whose payments are closed.
func (e *expiry) closeOrders(ctx context.Context, closable []ids.ID) {
	closed, err := e.orders.CloseClaimed(ctx, closable, orderevent.ReasonTimeout)
	if err != nil {
		e.log.WarnContext(ctx, "due orders not closed, retrying when their claim expires", "orders", len(closable)-len(closed), "error", err)
		return
	}
	if len(closed) < len(closable) {
		// Another change came first: a payment, a cancellation, or the claim expired.
		// The rules provide for each.
		e.log.InfoContext(ctx, "some due orders changed before they could be closed", "closable", len(closable), "closed", len(closed))
	}
}
