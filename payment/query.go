package payment

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
)

const (
	// claimAtMost is how many payments or refunds a worker claims at a time: as many as
	// it asks about at once, so that none waits for the others while its claim runs out.
	claimAtMost = closeParallel
	// stepTimeout bounds what a worker does with one payment or refund.
	stepTimeout = callTimeout + bookTimeout
	// queriesDue and refundsDue are whether a round has something to claim.
	queriesDue = `EXISTS (SELECT FROM payments.payments WHERE status = 'created' AND next_query <= statement_timestamp())`
	refundsDue = `EXISTS (SELECT FROM payments.refunds WHERE status = 'requested' AND next_try <= statement_timestamp())`
	// claimFor is how long a claimed payment or refund is its worker's. It outlasts the
	// claiming, which counts from Postgres's clock, and the step, so that no two instances
	// call a provider about one number at the same time.
	claimFor = bookTimeout + stepTimeout + time.Second
)

// bookTimeout bounds how long a step may wait for Postgres in addition to its
// call to a provider: far more than its transactions need, and with
// closeTimeout still within an order's claim.
const bookTimeout = 5 * time.Second

// poller asks providers about payments and refunds of which they reported nothing.
type poller struct {
	*gateway
	books   *books
	closing *closing
}

// runQueries queries providers about open payments whose callback has not
// arrived.
func (pl *poller) runQueries(ctx context.Context) error {
	return pl.loop(pl.deps.Pulse.Due("open payments", queriesDue), nil, pl.queryDue, "open payments not queried, retrying later").Run(ctx) // nothing here is too urgent to wait for the tick
}

// runRefunds requests refunds from providers, and queries them.
func (pl *poller) runRefunds(ctx context.Context) error {
	return pl.loop(pl.deps.Pulse.Due("refunds", refundsDue), pl.books.refundNow, pl.refundDue, "refunds not requested, retrying later").Run(ctx)
}

// loop calls round at each tick, or when a pulse finds something due, and at each kick, and again immediately if the
// round found as much as it claims at a time. What a failed round left is due
// again later.
func (pl *poller) loop(due, kick <-chan struct{}, round func(context.Context) (int, error), failed string) app.Loop {
	return app.Loop{Every: pl.cfg.Poll, Due: due, Kick: kick, Log: pl.deps.Log, Failed: failed, Do: func(ctx context.Context) error {
		for ctx.Err() == nil {
			if n, err := round(ctx); err != nil || n < claimAtMost {
				return err
			}
		}
		return nil
	}}
}

// each runs one payment's or refund's step for all, closeParallel at a time,
// with time for a call to its provider and for Postgres.
func each[T any](ctx context.Context, due []T, step func(context.Context, T)) {
	var g errgroup.Group
	g.SetLimit(closeParallel)
	for _, d := range due {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, stepTimeout)
			defer cancel()
			step(ctx, d)
			return nil
		})
	}
	_ = g.Wait() // the functions return nil
}

// queryDue queries the payments that are due and returns how many.
func (pl *poller) queryDue(ctx context.Context) (int, error) {
	due, statuses, err := pl.claimQueries(ctx)
	if err != nil {
		return 0, err
	}
	each(ctx, due, func(ctx context.Context, d paymentdb.ClaimQueriesRow) {
		p := d.PaymentsPayment
		// An expired payment cannot be paid, and an order that no longer waits should
		// not be: those payments are closed, which also returns their state.
		if err := pl.ask(ctx, p, d.Expired || statuses[p.OrderNo] != orderevent.StatusPending); err != nil {
			pl.deps.Log.WarnContext(ctx, "open payment not queried", "provider", p.Provider, "payment_no", p.PaymentNo,
				"queries", p.Queries, "error", err)
		}
	})
	return len(due), nil
}

// claimQueries claims the payments that are due, with the status of their
// orders.
func (pl *poller) claimQueries(ctx context.Context) ([]paymentdb.ClaimQueriesRow, map[ids.ID]string, error) {
	ctx, cancel := context.WithTimeout(ctx, bookTimeout)
	defer cancel()
	due, err := pl.q.ClaimQueries(ctx, paymentdb.ClaimQueriesParams{
		Claim: claimFor, BaseMs: pl.cfg.QueryAfter.Milliseconds(), MostMs: pl.cfg.QueryAtMost.Milliseconds(), AtMost: claimAtMost,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("payment: claim queries: %w", err)
	}
	nos := make([]ids.ID, len(due))
	for i, d := range due {
		nos[i] = d.PaymentsPayment.OrderNo
	}
	statuses, err := pl.deps.Orders.Statuses(ctx, nos)
	if err != nil {
		return nil, nil, fmt.Errorf("payment: read orders of open payments: %w", err)
	}
	return due, statuses, nil
}

// ask queries a payment's state at its provider and applies it, closing the
// payment there first if closeIt.
func (pl *poller) ask(ctx context.Context, p paymentdb.PaymentsPayment, closeIt bool) error {
	if closeIt {
		_, err := pl.closing.closeOne(ctx, p)
		return err
	}
	prov, err := pl.provider(ctx, p.Provider)
	if err != nil {
		return err
	}
	st, err := prov.Query(ctx, named(p))
	if err != nil {
		return err
	}
	_, err = pl.closing.follow(ctx, p, st)
	return err
}
