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

// claimAtMost is how many payments or refunds a worker takes at a time: all of
// them are done within a few rounds of CloseParallel.
const claimAtMost = 64

// bookTimeout bounds what a step may wait for Postgres besides its call to a
// provider: far more than its transactions need, and with closeTimeout
// still within an order's claim.
const bookTimeout = 5 * time.Second

// runQueries asks providers after open payments whose callback has not come.
func (s *Service) runQueries(ctx context.Context) error {
	return s.loop(nil, s.queryDue, "open payments not asked after, trying again later").Run(ctx) // nothing is so urgent that it could not wait for the tick
}

// runRefunds asks providers for refunds, and after them.
func (s *Service) runRefunds(ctx context.Context) error {
	return s.loop(s.refundNow, s.refundDue, "refunds not asked for, trying again later").Run(ctx)
}

// loop calls round at each tick and each kick, and again at once when it found
// as much as it takes at a time. What a failed round left is due again later.
func (s *Service) loop(kick <-chan struct{}, round func(context.Context) (int, error), failed string) app.Loop {
	return app.Loop{Every: s.cfg.Poll, Kick: kick, Log: s.deps.Log, Failed: failed, Do: func(ctx context.Context) error {
		for ctx.Err() == nil {
			if n, err := round(ctx); err != nil || n < claimAtMost {
				return err
			}
		}
		return nil
	}}
}

// each does one payment's or refund's step, closeParallel at a time, with
// room for a call to its provider and for the books.
func each[T any](ctx context.Context, due []T, step func(context.Context, T)) {
	var g errgroup.Group
	g.SetLimit(closeParallel)
	for _, d := range due {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, callTimeout+bookTimeout)
			defer cancel()
			step(ctx, d)
			return nil
		})
	}
	_ = g.Wait() // the functions return nil
}

// queryDue asks after the payments whose turn it is and returns how many.
func (s *Service) queryDue(ctx context.Context) (int, error) {
	due, statuses, err := s.claimQueries(ctx)
	if err != nil {
		return 0, err
	}
	each(ctx, due, func(ctx context.Context, d paymentdb.ClaimQueriesRow) {
		p := d.PaymentsPayment
		// Nobody can pay an expired payment or should pay for an order that is
		// not waiting for it: those are closed, which also tells how they stand.
		if err := s.ask(ctx, p, d.Expired || statuses[p.OrderNo] != orderevent.StatusPending); err != nil {
			s.deps.Log.WarnContext(ctx, "provider not heard on an open payment", "provider", p.Provider, "payment_no", p.PaymentNo,
				"queries", p.Queries, "error", err)
		}
	})
	return len(due), nil
}

// claimQueries takes the payments whose turn it is, with how their orders stand.
func (s *Service) claimQueries(ctx context.Context) ([]paymentdb.ClaimQueriesRow, map[ids.ID]string, error) {
	ctx, cancel := context.WithTimeout(ctx, bookTimeout)
	defer cancel()
	due, err := s.q.ClaimQueries(ctx, paymentdb.ClaimQueriesParams{
		BaseMs: s.cfg.QueryAfter.Milliseconds(), MostMs: s.cfg.QueryAtMost.Milliseconds(), AtMost: claimAtMost,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("payment: claim queries: %w", err)
	}
	nos := make([]ids.ID, len(due))
	for i, d := range due {
		nos[i] = d.PaymentsPayment.OrderNo
	}
	statuses, err := s.deps.Orders.Statuses(ctx, nos)
	if err != nil {
		return nil, nil, fmt.Errorf("payment: read orders of open payments: %w", err)
	}
	return due, statuses, nil
}

// ask finds out how a payment stands at its provider and follows it, closing it
// there first where it has no future.
func (s *Service) ask(ctx context.Context, p paymentdb.PaymentsPayment, closeIt bool) error {
	if closeIt {
		_, err := s.closeOne(ctx, p)
		return err
	}
	prov, ok := s.named[p.Provider]
	if !ok {
		s.raise(ctx, alarmProviderMissing, p.Provider, "")
		return errNoProvider
	}
	st, err := prov.Query(ctx, p.PaymentNo)
	if err != nil {
		return err
	}
	_, err = s.follow(ctx, p, st)
	return err
}
