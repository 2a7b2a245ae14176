package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
)

// Why an order cannot be paid or closed now.
var (
	ErrNotFound      = fault.Plain(fault.NotFound, "You have no order with this number.")
	ErrNotPayable    = fault.New(fault.Conflict, "order-not-payable", fault.Titles{"This order can no longer be paid", "订单已无法支付"}, "Only an order that waits for payment can be paid, and only before its deadline.")
	ErrNotCancelable = fault.New(fault.Conflict, "order-not-cancelable", fault.Titles{"This order can no longer be canceled", "订单已无法取消"}, "Only an order that waits for payment can be canceled.")
	ErrQueued        = fault.New(fault.Conflict, "order-queued", fault.Titles{"This order is still in line", "排队中，订单生成后再操作"}, "This number is still in line; it can be paid or canceled as soon as GET /api/v1/orders/{no} says pending_payment.").After(time.Second)
	ErrClosing       = fault.New(fault.Conflict, "order-closing", fault.Titles{"This order is being closed", "订单正在关闭"}, "The order is being closed; ask for it again in a moment.").After(time.Second)
)

// Payable returns the user's order with its row locked, so that neither a
// claim nor another payment comes in between until tx ends. It fails with
// ErrNotFound, ErrNotPayable or ErrClosing. Of ErrNotFound, Missing knows more
// once tx has ended.
func (s *Service) Payable(ctx context.Context, tx pgx.Tx, no ids.ID, user int64) (orderevent.Order, error) {
	if no.Bucket() != ids.Bucket(user) {
		return orderevent.Order{}, ErrNotFound
	}
	row, err := orderdb.New(tx).LockOrder(ctx, orderdb.LockOrderParams{OrderNo: no, Bucket: no.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.UserID != user {
		return orderevent.Order{}, ErrNotFound
	}
	if err != nil {
		return orderevent.Order{}, fmt.Errorf("order: lock %s: %w", no, err)
	}
	// The deadline is Postgres's, so Postgres's clock compares it. The row lock
	// was waited for, hence the time after it and not the statement's.
	now, err := orderdb.New(tx).Clock(ctx)
	if err != nil {
		return orderevent.Order{}, fmt.Errorf("order: read clock: %w", err)
	}
	switch {
	case row.Status != orderevent.StatusPending:
		return orderevent.Order{}, whatItIs(ErrNotPayable, row)
	case row.ClosingUntil != nil && row.ClosingUntil.After(now):
		return orderevent.Order{}, ErrClosing
	case !row.PayDeadline.After(now):
		return orderevent.Order{}, whatItIs(ErrNotPayable, row)
	}
	return fromRow(row), nil
}

// whatItIs adds to an error what the order is, and why where it has come to
// nothing, in the words for its shopper.
func whatItIs(err *fault.Error, row orderdb.OrdersOrder) *fault.Error {
	err = err.With("order_status", row.Status)
	if reason := orderevent.View(fromRow(row)).Reason; reason != "" {
		err = err.With("reason", reason)
	}
	return err
}

// MarkPaid turns a pending order into a paid one inside the transaction that
// captures its payment, whether or not it is being closed or past its deadline:
// money that arrived before the closing committed wins. It reports false, with
// the order as it is, when the order is pending no more; the money then has to
// go back. After the commit the caller calls Announce.
func (s *Service) MarkPaid(ctx context.Context, tx pgx.Tx, no, paymentNo ids.ID) (orderevent.Order, bool, error) {
	q := orderdb.New(tx)
	row, err := q.MarkPaid(ctx, orderdb.MarkPaidParams{OrderNo: no, Bucket: no.Bucket(), Actor: "payment " + paymentNo.String()})
	if errors.Is(err, pgx.ErrNoRows) {
		have, err := q.ReadOrder(ctx, orderdb.ReadOrderParams{OrderNo: no, Bucket: no.Bucket()})
		if errors.Is(err, pgx.ErrNoRows) {
			return orderevent.Order{}, false, ErrNotFound
		}
		if err != nil {
			return orderevent.Order{}, false, fmt.Errorf("order: read %s: %w", no, err)
		}
		return fromRow(have), false, nil
	}
	if err != nil {
		return orderevent.Order{}, false, fmt.Errorf("order: mark %s paid: %w", no, err)
	}
	o := fromRow(orderdb.OrdersOrder(row))
	if _, err := appendEvents(ctx, tx, orderevent.SubjectPaid, []orderevent.Order{o}); err != nil {
		return orderevent.Order{}, false, fmt.Errorf("order: mark %s paid: %w", no, err)
	}
	return o, true, nil
}

// Announce is called once after the commit of a change: it counts it, puts the
// orders into the cache at once and wakes the outbox relay. It may fail or never
// be called; then the events, which are in the outbox, do the same a little later.
func (s *Service) Announce(ctx context.Context, orders ...orderevent.Order) {
	for i := range orders {
		s.metrics.changes.WithLabelValues(orders[i].Status, orders[i].Reason).Inc()
	}
	ctx = context.WithoutCancel(ctx) // the change is committed, whether or not its client still waits
	if err := s.cache.put(ctx, orders); err != nil {
		s.deps.Log.WarnContext(ctx, "order cache not updated, its subscription will repeat it", "orders", len(orders), "error", err)
	}
	// Last, so that whoever asks because of the push is not told an older state.
	s.deps.Outbox.Wake()
}
