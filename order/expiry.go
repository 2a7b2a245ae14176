package order

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/order/search"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
)

// Payments closes, lists and refunds payments; payment implements it and main wires it,
// because order may not import payment.
type Payments interface {
	search.Payments
	// PaymentsOf returns the order's payments with their refunds, oldest first.
	PaymentsOf(ctx context.Context, no ids.ID) ([]PaymentView, error)
	// Begun reports whether a payment of the order was ever begun. tx holds the order's
	// row, under whose lock payments begin.
	Begun(ctx context.Context, tx pgx.Tx, no ids.ID) (bool, error)
	// OpenOf returns those of the orders that have an open payment, in groups that
	// do not wait for each other: one for each provider. It calls no provider.
	OpenOf(ctx context.Context, nos []ids.ID) (groups [][]ids.ID, err error)
	// CloseOpen closes the open payment of each order, if it has one, and returns
	// the numbers whose orders may now be closed. It leaves out those whose
	// payment was captured or whose provider gave no answer. It is called outside
	// any transaction and should need less than Config.ClosingFor.
	CloseOpen(ctx context.Context, nos []ids.ID) (closable []ids.ID, err error)
	// RequestRefund asks to refund a paid order, in a transaction of its own.
	RequestRefund(ctx context.Context, r RefundRequest) (RefundView, error)
}

// expiry closes orders that were not paid in time. Each instance runs one; they
// share the work.
type expiry struct {
	orders   *Service
	payments Payments
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
func newExpiry(s *Service, payments Payments) *expiry {
	return &expiry{orders: s, payments: payments, slots: make(chan struct{}, closingAtOnce)}
}

// Run sweeps once a second and whenever a timer says that a batch fell due,
// until ctx ends. It never fails: an order that could not be closed is retried
// at the next tick or, once claimed, when its claim expires.
func (e *expiry) Run(ctx context.Context) error {
	defer e.closing.Wait()
	return app.Loop{
		Every: e.orders.cfg.SweepEvery, Kick: e.orders.due, Do: e.sweep,
		Log: e.orders.deps.Log, Failed: "due orders not claimed, trying again at the next tick",
	}.Run(ctx)
}

// sweep closes everything that is due, a claim at a time. It fails if nothing
// can be claimed; errors after a claim are logged.
func (e *expiry) sweep(ctx context.Context) error {
	limit := e.orders.cfg.SweepLimit
	for ctx.Err() == nil {
		claimed, err := e.orders.ClaimDue(ctx, limit)
		if err != nil {
			return err
		}
		if len(claimed) > 0 {
			e.close(ctx, claimed)
		}
		if len(claimed) < limit {
			break // no more are due; what falls due meanwhile has its own timer
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
			e.orders.deps.Log.WarnContext(ctx, "payments of due orders not read, retrying when their claim expires", "claimed", len(claimed), "error", err)
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
			e.orders.deps.Log.WarnContext(ctx, "providers are slow, retrying due orders when their claim expires", "orders", len(nos))
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
	timer := time.NewTimer(e.orders.cfg.SweepEvery)
	defer timer.Stop()
	select {
	case e.slots <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// closePaid closes the orders' payments at their provider and then the orders.
func (e *expiry) closePaid(ctx context.Context, nos []ids.ID) {
	closable, err := e.payments.CloseOpen(ctx, nos)
	if err != nil {
		// The orders that it returned are closable nevertheless.
		e.orders.deps.Log.WarnContext(ctx, "payments of due orders not closed, retrying when their claim expires", "claimed", len(nos), "closable", len(closable), "error", err)
	}
	e.closeOrders(ctx, closable)
}

// closeOrders makes the third step for orders whose payments are closed.
func (e *expiry) closeOrders(ctx context.Context, closable []ids.ID) {
	log := e.orders.deps.Log
	closed, err := e.orders.CloseClaimed(ctx, closable, orderevent.ReasonTimeout)
	if err != nil {
		log.WarnContext(ctx, "due orders not closed, retrying when their claim expires", "orders", len(closable)-len(closed), "error", err)
		return
	}
	if len(closed) < len(closable) {
		// Another change came first: a payment, a cancellation, or the claim expired.
		// The rules provide for each.
		log.InfoContext(ctx, "some due orders changed before they could be closed", "closable", len(closable), "closed", len(closed))
	}
}

// timers remembers which wake-ups are set, so that the batches of a rush do not
// set the same one a thousand times. Safe for concurrent use; the zero value is
// ready.
type timers struct {
	mu  sync.Mutex
	set map[time.Time]struct{}
}

// maxTimers bounds the memory; a forgotten timer is only set twice.
const maxTimers = 1024

// add reports whether no timer was set for that time, and notes that one is.
func (t *timers) add(at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.set[at]; ok {
		return false
	}
	if t.set == nil || len(t.set) >= maxTimers {
		t.set = make(map[time.Time]struct{})
	}
	t.set[at] = struct{}{}
	return true
}
