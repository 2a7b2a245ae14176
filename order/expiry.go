package order

import (
	"context"
	"sync"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/ids"
)

// Payments closes payments at their providers; payment implements it and main
// wires it, because order may not import payment.
type Payments interface {
	// CloseOpen closes the open payment of each order, if it has one, and returns
	// the numbers whose orders may now be closed. It leaves out those whose
	// payment was captured or whose provider gave no answer. It is called outside
	// any transaction and should need less than Config.ClosingFor.
	CloseOpen(ctx context.Context, nos []ids.ID) (closable []ids.ID, err error)
}

// Expiry closes orders that were not paid in time. Each instance runs one; they
// share the work.
type Expiry struct {
	orders   *Service
	payments Payments
}

// NewExpiry returns the sweeper; Run is a worker's loop.
func NewExpiry(s *Service, payments Payments) *Expiry { return &Expiry{orders: s, payments: payments} }

// Run sweeps once a second and whenever a timer says that a batch fell due,
// until ctx ends. It never fails: what could not be closed is tried again at
// the next tick or, once claimed, when its claim runs out.
func (e *Expiry) Run(ctx context.Context) error {
	tick := time.NewTicker(e.orders.cfg.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-e.orders.due:
		}
		e.sweep(ctx)
	}
}

// sweep closes everything that is due, a claim at a time.
func (e *Expiry) sweep(ctx context.Context) {
	limit := e.orders.cfg.SweepLimit
	for ctx.Err() == nil {
		claimed, err := e.orders.ClaimDue(ctx, limit)
		if err != nil {
			if ctx.Err() == nil {
				e.orders.deps.Log.WarnContext(ctx, "due orders not claimed, trying again at the next tick", "error", err)
			}
			return
		}
		if len(claimed) == 0 {
			return
		}
		e.close(ctx, claimed)
		if len(claimed) < limit {
			return // there was no more; what falls due meanwhile has its own timer
		}
	}
}

// close makes the second and third step for claimed orders. What fails here
// keeps its claim and is claimed again after it.
func (e *Expiry) close(ctx context.Context, claimed []ids.ID) {
	log := e.orders.deps.Log
	closable, err := e.payments.CloseOpen(ctx, claimed)
	if err != nil {
		// Those that it names are closable all the same.
		log.WarnContext(ctx, "payments of due orders not closed, trying again after their claim", "claimed", len(claimed), "closable", len(closable), "error", err)
	}
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
