package refund

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
)

// errUnits ends a transaction that refunds an order without the lock of its stock row.
var errUnits = errors.New("refund: the stock row has to be locked first")

// change is one change of an order's refunds, inside its transaction.
type change struct {
	tx    pgx.Tx
	q     *paymentdb.Queries
	order orderevent.Order // locked
}

// move makes a change of an order's refunds, lets the order follow it, and then runs
// after with the orders that changed, all in one transaction. first runs before any
// row is locked and may end the transaction early without error by returning false.
// The caller's functions may run several times.
func (s *Service) move(ctx context.Context, no ids.ID, actor string, first func(tx pgx.Tx, q *paymentdb.Queries) (bool, error),
	do func(c *change) error, after func(tx pgx.Tx, whole bool) error,
) error {
	var changed []orderevent.Order
	announce := s.deps.Orders.Committed
	for _, units := range []bool{false, true} {
		err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
			changed = nil // InTx may run this again
			q := s.q.WithTx(tx)
			if first != nil {
				if goOn, err := first(tx, q); err != nil || !goOn {
					return err
				}
			}
			o, err := s.deps.Orders.LockForRefund(ctx, tx, no, units)
			if err != nil {
				return err
			}
			if err := do(&change{tx: tx, q: q, order: o}); err != nil {
				return err
			}
			if changed, err = s.follow(ctx, tx, q, o, units, actor); err != nil {
				return err
			}
			if o.Status == orderevent.StatusRefunded {
				announce = s.deps.Orders.Refresh // it stays refunded, and was counted then
			}
			whole := len(changed) > 0 && changed[len(changed)-1].Status == orderevent.StatusRefunded && o.Status != orderevent.StatusRefunded
			return after(tx, whole)
		})
		if errors.Is(err, errUnits) {
			continue
		}
		if err == nil {
			announce(ctx, changed...) // also wakes the relay
		}
		return err
	}
	return errUnits
}

// follow moves an order to the state that its refunds say, in as many steps as the
// order's states have, and returns it after each. units says that the stock row is
// locked.
func (s *Service) follow(ctx context.Context, tx pgx.Tx, q *paymentdb.Queries, o orderevent.Order, units bool, actor string) (changed []orderevent.Order, err error) {
	b, err := readBook(ctx, q, o)
	if err != nil || !b.whole() {
		return nil, err
	}
	if back := b.failed > 0 || b.open > 0; o.Status == orderevent.StatusRefunded && back != (o.Reason == orderevent.ReasonTakenBack) {
		noted, err := s.deps.Orders.NoteTakenBack(ctx, tx, o.No, back, actor)
		return []orderevent.Order{noted}, err
	}
	status := o.Status
	step := func(to string) error {
		moved, ok, err := s.deps.Orders.MoveRefunding(ctx, tx, o.No, to, b.units == UnitsWriteOff, actor)
		if ok {
			changed, status = append(changed, moved), to
		}
		return err
	}
	if status == orderevent.StatusPaid || status == orderevent.StatusCompleted || status == orderevent.StatusRefundFailed && b.failed == 0 {
		if err := step(orderevent.StatusRefunding); err != nil {
			return nil, err
		}
	}
	if status != orderevent.StatusRefunding {
		return changed, nil
	}
	switch {
	case b.failed > 0:
		err = step(orderevent.StatusRefundFailed)
	case b.open == 0 && !units:
		err = errUnits
	case b.open == 0:
		err = step(orderevent.StatusRefunded)
	}
	return changed, err
}

// book is the money that paid an order, and what is asked back of it.
type book struct {
	paying paymentdb.PayingCaptureRow
	paid   bool  // there is such money
	asked  int64 // of all refunds but rejected and replaced ones
	// granted excludes those that await approval, too; open and failed are how many of
	// them the provider has not ended, and has failed.
	granted      int64
	count        int
	open, failed int
	byOperators  int64  // the part of asked that operators and disputes asked for
	units        string // of the one that was granted last
}

func readBook(ctx context.Context, q *paymentdb.Queries, o orderevent.Order) (b book, err error) {
	b.paying, err = q.PayingCapture(ctx, paymentdb.PayingCaptureParams{Bucket: o.No.Bucket(), OrderNo: o.No})
	if errors.Is(err, pgx.ErrNoRows) {
		return b, nil
	}
	if err != nil {
		return b, fmt.Errorf("refund: read the money of order %s: %w", o.No, err)
	}
	b.paid = true
	rows, err := q.AskedRefunds(ctx, paymentdb.AskedRefundsParams{OrderNo: o.No, Bucket: o.No.Bucket()})
	if err != nil {
		return b, fmt.Errorf("refund: read refunds of order %s: %w", o.No, err)
	}
	var last time.Time
	for _, r := range rows {
		if r.Status == rejected || r.Status == replaced {
			continue
		}
		b.asked += r.Amount
		if r.Reason != ByShopper {
			b.byOperators += r.Amount
		}
		if r.Status == awaiting {
			continue
		}
		b.granted, b.count = b.granted+r.Amount, b.count+1
		at := r.CreatedAt
		if r.DecidedAt != nil {
			at = *r.DecidedAt
		}
		if !at.Before(last) { // approvals come in another order than refunds, and only the latest knows whether the goods have left
			last, b.units = at, r.Units
		}
		switch r.Status {
		case requested:
			b.open++
		case failed:
			b.failed++
		}
	}
	return b, nil
}

// refuseChargedBack fails if the shopper's bank has taken back so much of a capture that
// this refund of it would pay the shopper twice.
func refuseChargedBack(ctx context.Context, q *paymentdb.Queries, r paymentdb.PaymentsRefund) error {
	back, err := q.ChargedBack(ctx, paymentdb.ChargedBackParams{Provider: r.Provider, CaptureTxn: r.CaptureTxn, Bucket: r.Bucket})
	if err == nil && back.Held > 0 && back.Rest < 0 {
		err = errChargedBack
	}
	return err
}

// whole reports whether everything that was paid is to be refunded.
func (b book) whole() bool { return b.paid && b.count > 0 && b.granted == b.paying.Amount }
