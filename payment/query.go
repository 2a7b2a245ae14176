package payment

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/platform/alarm"
	"stampede/platform/ids"
)

// claimAtMost is how many payments or refunds a worker takes at a time: all of
// them are done within a few rounds of CloseParallel.
const claimAtMost = 64

// runQueries asks providers after open payments whose callback has not come.
func (s *Service) runQueries(ctx context.Context) error {
	return s.loop(ctx, nil, s.queryDue) // nothing is so urgent that it could not wait for the tick
}

// runRefunds asks providers for refunds, and after them.
func (s *Service) runRefunds(ctx context.Context) error {
	return s.loop(ctx, s.refundNow, s.refundDue)
}

// loop calls round at each tick and each wake-up until ctx ends, and again at
// once when round found as much as it takes at a time. A failed round is
// logged; what it left is due again later.
func (s *Service) loop(ctx context.Context, wake <-chan struct{}, round func(context.Context) (int, error)) error {
	tick := time.NewTicker(s.cfg.Poll)
	defer tick.Stop()
	for {
		n, err := round(ctx)
		if err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "payment worker failed, trying again later", "error", err)
		}
		if n == claimAtMost && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-tick.C:
		}
	}
}

// queryDue asks after the payments whose turn it is and returns how many.
func (s *Service) queryDue(ctx context.Context) (int, error) {
	due, err := s.q.ClaimQueries(ctx, paymentdb.ClaimQueriesParams{
		BaseMs: s.cfg.QueryAfter.Milliseconds(), MostMs: s.cfg.QueryAtMost.Milliseconds(), AtMost: claimAtMost,
	})
	if err != nil {
		return 0, fmt.Errorf("payment: claim queries: %w", err)
	}
	if len(due) == 0 {
		return 0, nil
	}
	nos := make([]ids.ID, len(due))
	for i, d := range due {
		nos[i] = d.PaymentsPayment.OrderNo
	}
	statuses, err := s.deps.Orders.Statuses(ctx, nos)
	if err != nil {
		return 0, fmt.Errorf("payment: read orders of open payments: %w", err)
	}
	var g errgroup.Group
	g.SetLimit(s.cfg.CloseParallel)
	for _, d := range due {
		g.Go(func() error {
			p := d.PaymentsPayment
			// Nobody can pay an expired payment or should pay for an order that is
			// not waiting for it: those are closed, which also tells how they stand.
			if err := s.ask(ctx, p, d.Expired || statuses[p.OrderNo] != orderevent.StatusPending); err != nil {
				s.deps.Log.WarnContext(ctx, "provider not heard on an open payment", "provider", p.Provider, "payment_no", p.PaymentNo,
					"queries", p.Queries, "error", err)
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return nil
	return len(due), nil
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
		s.raise(ctx, alarm.PaymentProviderMissing, p.Provider, "")
		return errNoProvider
	}
	st, err := prov.Query(ctx, p.PaymentNo)
	if err != nil {
		return err
	}
	_, err = s.follow(ctx, p, st)
	return err
}
