package order

import (
	"context"
	"slices"
	"sync"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
)

// Payments closes payments at their providers and shows them; payment implements
// it and main wires it, because order may not import payment.
type Payments interface {
	// PaymentsOf returns the order's payments with their refunds, oldest first.
	PaymentsOf(ctx context.Context, no ids.ID) ([]PaymentView, error)
	// OpenOf returns those of the orders that have an open payment, in groups
	// that do not wait for each other: one for each provider. It asks no provider.
	OpenOf(ctx context.Context, nos []ids.ID) (groups [][]ids.ID, err error)
	// CloseOpen closes the open payment of each order, if it has one, and returns
	// the numbers whose orders may now be closed. It leaves out those whose
	// payment was captured or whose provider gave no answer. It is called outside
	// any transaction and should need less than Config.ClosingFor.
	CloseOpen(ctx context.Context, nos []ids.ID) (closable []ids.ID, err error)
}

// expiry closes orders that were not paid in time. Each instance runs one; they
// share the work.
type expiry struct {
	orders   *Service
	payments Payments
	// closing counts what waits for providers, slots bounds it.
	closing sync.WaitGroup
	slots   chan struct{}
}

// closingAtOnce is how many groups of orders may wait for their providers at a
// time. Each is at most Config.SweepLimit orders of one provider, and healthy
// ones take a second, so this is ample; one that hangs takes its share only
// until its circuit breaker opens.
const closingAtOnce = 8

// newExpiry returns the sweeper; Run is a worker's loop.
func newExpiry(s *Service, payments Payments) *expiry {
	return &expiry{orders: s, payments: payments, slots: make(chan struct{}, closingAtOnce)}
}

// Run sweeps once a second and whenever a timer says that a batch fell due,
// until ctx ends. It never fails: what could not be closed is tried again at
// the next tick or, once claimed, when its claim runs out.
func (e *expiry) Run(ctx context.Context) error {
	defer e.closing.Wait()
	return app.Loop{
		Every: e.orders.cfg.SweepEvery, Kick: e.orders.due, Do: e.sweep,
		Log: e.orders.deps.Log, Failed: "due orders not claimed, trying again at the next tick",
	}.Run(ctx)
}

// sweep closes everything that is due, a claim at a time. It fails when nothing
// can be claimed; what happens to a claim is logged.
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
			break // there was no more; what falls due meanwhile has its own timer
		}
	}
	return nil
}

// close makes the second and third step for claimed orders: at once for those
// without an open payment, beside the sweep for the others, so that a provider
// that hangs holds up nobody but its own. What fails here keeps its claim and is
// claimed again after it.
func (e *expiry) close(ctx context.Context, claimed []ids.ID) {
	groups, err := e.payments.OpenOf(ctx, claimed)
	if err != nil {
		if ctx.Err() == nil {
			e.orders.deps.Log.WarnContext(ctx, "payments of due orders not read, trying again after their claim", "claimed", len(claimed), "error", err)
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
			e.orders.deps.Log.WarnContext(ctx, "providers are slow, due orders are tried again after their claim", "orders", len(nos))
			continue
		}
		e.closing.Go(func() {
			defer func() { <-e.slots }()
			e.closePaid(ctx, nos)
		})
	}
}

// slot waits a sweep's time for a place among those that wait for providers.
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
		// Those that it names are closable all the same.
		e.orders.deps.Log.WarnContext(ctx, "payments of due orders not closed, trying again after their claim", "claimed", len(nos), "closable", len(closable), "error", err)
	}
	e.closeOrders(ctx, closable)
}

// closeOrders makes the third step: the orders whose payments are closed.
func (e *expiry) closeOrders(ctx context.Context, closable []ids.ID) {
	log := e.orders.deps.Log
	closed, err := e.orders.CloseClaimed(ctx, closable, orderevent.ReasonTimeout)
	if err != nil {
		log.WarnContext(ctx, "due orders not closed, trying again after their claim", "orders", len(closable), "error", err)
		return
	}
	if len(closed) < len(closable) {
		// Whoever came first has changed the row: a payment, a cancel, or a claim
		// that ran out. The rules provide for each.
		log.InfoContext(ctx, "some due orders had changed before they could be closed", "closable", len(closable), "closed", len(closed))
	}
}

// timers remembers which wake-ups are set, so that the batches of a rush do
// not set the same one a thousand times. Safe for concurrent use; the zero
// value is ready.
type timers struct {
	mu  sync.Mutex
	set map[time.Time]struct{}
}

// maxTimers bounds the memory; forgetting only costs timers set twice.
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
