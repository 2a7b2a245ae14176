package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/coupon"
	"stampede/order/details"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/store/pg"
)

// Why an order cannot be paid or closed now.
var (
	ErrDetailsMissing = fault.New(fault.Conflict, "details-missing",
		fault.T("Details of this order are missing", "请先填写订单信息"),
		fault.T("Before this order can be paid, send what its checkout asks for to PUT /api/v1/orders/{no}/details.",
			"付款前，请将所需信息提交到 PUT /api/v1/orders/{no}/details。"),
		fault.T("Fill in the order’s details, then pay.", "请先填写订单所需信息，再付款。"))
	ErrNotFound = fault.Plain(fault.NotFound, fault.T("You have no order with this number.", "您没有该订单号的订单。"))
	// ErrNoOrder is ErrNotFound for operators.
	ErrNoOrder = fault.Plain(fault.NotFound, fault.T("There is no order with this number.", "没有该订单号的订单。"))
	// ErrCouponNotUsable refuses a payment that names a coupon.
	ErrCouponNotUsable = coupon.ErrNotUsable
	ErrNotPayable      = fault.New(fault.Conflict, "order-not-payable",
		fault.T("This order can no longer be paid", "订单已无法支付"),
		fault.T("Only an order that waits for payment can be paid, and only before its deadline.",
			"只有待付款的订单可以付款，且须在截止时间之前。"),
		fault.T("Read the order; if it was closed, rush again while the sale lasts.", "请查看订单状态；若已关闭，可在活动期间重新抢购。"))
	ErrNotCancelable = fault.New(fault.Conflict, "order-not-cancelable",
		fault.T("This order can no longer be canceled", "订单已无法取消"),
		fault.T("Only an order that waits for payment can be canceled.", "只有待付款的订单可以取消。"),
		fault.T("Read the order: refund it if it is paid. A closed order needs nothing.", "请查看订单：已付款的请走退款，已关闭的无需处理。"))
	ErrQueued = fault.New(fault.Conflict, "order-queued", fault.T("This order is still in line", "排队中，订单生成后再操作"),
		fault.T("This number is still in line; it can be paid or canceled as soon as GET /api/v1/orders/{no} says "+
			"pending_payment.",
			"该号码仍在排队；GET /api/v1/orders/{no} 返回 pending_payment 后即可付款或取消。"),
		fault.T("Ask for the order again in a moment.", "请稍后再次查询订单。")).After(time.Second)
	ErrClosing = fault.New(fault.Conflict, "order-closing", fault.T("This order is being closed", "订单正在关闭"),
		fault.T("The order is being closed; ask for it again in a moment.", "订单正在关闭，请稍后再查。"),
		fault.T("Ask for the order again in a moment.", "请稍后再次查询订单。")).After(time.Second)
)

// Payable returns the user's order with its row locked, so that neither a claim
// nor another payment can intervene until tx ends. It fails with ErrNotFound,
// ErrNotPayable, ErrClosing or ErrDetailsMissing. After ErrNotFound and the end of
// tx, Missing returns the precise reason.
func (s *Service) Payable(ctx context.Context, tx pgx.Tx, no ids.ID, user int64) (orderevent.Order, error) {
	o, err := s.LockPending(ctx, tx, no, user)
	if err == nil {
		err = s.settled(ctx, tx, &o)
	}
	return o, err
}

// LockPending is Payable without a look at the details.
func (s *Service) LockPending(ctx context.Context, tx pgx.Tx, no ids.ID, user int64) (orderevent.Order, error) {
	if no.Bucket() != ids.Bucket(user) {
		return orderevent.Order{}, ErrNotFound
	}
	row, err := table.Lock(ctx, tx, no, ErrNotFound)
	if err == nil && row.UserID != user {
		err = ErrNotFound
	}
	if err != nil {
		return orderevent.Order{}, err
	}
	// The deadline was set by Postgres's clock, so that clock is compared with it:
	// the time now, after the wait for the row lock, not the statement's.
	now, err := pg.Now(ctx, tx)
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
	return row.Order(), nil
}

// whatItIs adds to an error the order's status, and the reason if the order was
// refused or closed, as its shopper reads them.
func whatItIs(err *fault.Error, row orderdb.OrdersOrder) *fault.Error {
	err = err.With("order_status", row.Status)
	if reason := orderevent.View(row.Order()).Reason; reason != "" {
		err = err.With("reason", reason)
	}
	return err
}

// MarkPaid turns a pending order into a paid one inside the transaction that
// captures its payment of amount, which the row then names, even if it is being closed or past its deadline:
// money that arrived before the closing committed wins. It returns false, with the
// order as it is, if the order is no longer pending, or costs another amount since
// another coupon was chosen; the money must then be refunded. After the commit the
// caller calls Committed.
func (s *Service) MarkPaid(ctx context.Context, tx pgx.Tx, no ids.ID, by orderevent.PaidBy, amount int64) (orderevent.Order, bool, error) {
	row, err := orderdb.New(tx).MarkPaid(ctx, orderdb.MarkPaidParams{
		OrderNo: no, Bucket: no.Bucket(), Amount: amount, Actor: "payment " + by.PaymentNo.String(),
		PaymentNo: by.PaymentNo, Provider: by.Provider, Method: by.Method, ProviderTxn: by.ProviderTxn,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		have, err := table.Read(ctx, tx, no, ErrNotFound)
		return have.Order(), false, err
	}
	o, err := table.Announce(ctx, tx, orderevent.SubjectPaid, row, err)
	if err == nil && o.Discount > 0 {
		err = s.coupons.Use(ctx, tx, no)
	}
	if err != nil {
		return orderevent.Order{}, false, fmt.Errorf("order: mark %s paid: %w", no, err)
	}
	return o, true, nil
}

// Committed is called once after the commit of a change: it counts it, puts the
// orders into the cache immediately and wakes the outbox relay. If it fails or is
// never called, the events in the outbox do the same a little later.
func (s *Service) Committed(ctx context.Context, orders ...orderevent.Order) {
	for i := range orders {
		s.metrics.changes.WithLabelValues(orders[i].Status, orders[i].Reason).Inc()
	}
	s.metrics.tallied(orders)
	s.Refresh(ctx, orders...)
}

// Refresh is Committed for a change that is none of the status, which no funnel counts.
func (s *Service) Refresh(ctx context.Context, orders ...orderevent.Order) {
	ctx = context.WithoutCancel(ctx) // the change is committed, whether or not its client still waits
	if err := s.cache.put(ctx, orders); err != nil {
		s.deps.Log.WarnContext(ctx, "order cache not updated, the event subscription will repeat it", "orders", len(orders), "error", err)
	}
	// Last, so that a poll triggered by the push does not read an older state.
	s.deps.Outbox.Wake()
}

// ShopperIn is how an order's history names who acts on a shopper's routes: the shopper,
// or the holder of a token that was minted for the shopper.
func ShopperIn(ctx context.Context) string {
	if auth.From(ctx).Act != "" {
		return "minted token"
	}
	return "shopper"
}

// settled fails with ErrDetailsMissing if an order that tx has locked cannot be paid
// before its shopper has settled it. What was settled satisfied the activity, whose
// checkout has not changed since.
func (s *Service) settled(ctx context.Context, tx pgx.Tx, o *orderevent.Order) error {
	sale, err := s.deps.Plan.SaleOf(ctx, o.ItemID)
	if err != nil || sale.Checkout.Settled() {
		return err
	}
	_, ok, err := details.Read(ctx, tx, o.No)
	if err == nil && !ok {
		err = ErrDetailsMissing.With("fields", details.Missing(&sale.Checkout))
	}
	return err
}

// errNotRetaken rolls a retake back.
var errNotRetaken = errors.New("order: not taken up again")

// Retake turns a closed order into a paid one, with units from its item's backup,
// inside the transaction that captures its late payment. It returns false, with the
// order as it is, if the backup has too few units, the order is no longer closed, or
// its user has bought the item or another one of the activity since and may have one
// only: the money must then be refunded. After the commit the caller calls Committed.
//
// The item's stock rows are locked here, and so before the order's. tx may hold the lock of a
// ledger key, for which nothing waits that holds another lock; if it holds the
// order's, because it waited for the closing, a deadlock is possible and tx is
// retried.
func (s *Service) Retake(ctx context.Context, tx pgx.Tx, o orderevent.Order, by orderevent.PaidBy) (orderevent.Order, bool, error) {
	var paid orderevent.Order
	// A savepoint, because a violated index would end the caller's transaction.
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		if _, err := s.deps.Stock.LockItem(ctx, tx, o.ItemID); err != nil {
			return err
		}
		row, err := orderdb.New(tx).Retake(ctx, orderdb.RetakeParams{
			OrderNo: o.No, Bucket: o.No.Bucket(), Actor: "payment " + by.PaymentNo.String(),
			PaymentNo: by.PaymentNo, Provider: by.Provider, Method: by.Method, ProviderTxn: by.ProviderTxn,
		})
		if errors.Is(err, pgx.ErrNoRows) || pg.ViolatesUnique(err, "") {
			return errNotRetaken
		}
		if paid, err = table.Announce(ctx, tx, orderevent.SubjectPaid, row, err); err != nil {
			return err
		}
		ok, err := s.deps.Stock.Retake(ctx, tx, &paid)
		if err == nil && !ok {
			err = errNotRetaken
		}
		if err == nil && paid.Discount > 0 {
			err = s.coupons.Retake(ctx, tx, paid)
		}
		return err
	})
	if err == nil {
		return paid, true, nil
	}
	if !errors.Is(err, errNotRetaken) {
		return o, false, fmt.Errorf("order: take %s up again: %w", o.No, err)
	}
	have, err := table.Read(ctx, tx, o.No, ErrNotFound)
	return have.Order(), false, err
}

// Choose makes a coupon the discount of a pending order that Payable returned, in
// place of the one before; "" chooses none. It returns the order, and whether it has
// changed: then no payment of the former amount may stay open, and the caller calls
// Refresh after the commit. It fails with coupon.ErrNotUsable.
func (s *Service) Choose(ctx context.Context, tx pgx.Tx, o orderevent.Order, coupon string) (orderevent.Order, bool, error) {
	off, changed, err := s.coupons.Choose(ctx, tx, o, coupon)
	if err != nil || !changed {
		return o, false, err
	}
	o, err = amend(ctx, tx, o.No, "discount", o.Freight, off)
	return o, true, err
}

// amend changes one of the lines of a pending order, whose row tx has locked, and
// writes the event.
func amend(ctx context.Context, tx pgx.Tx, no ids.ID, line string, freight, discount int64) (orderevent.Order, error) {
	row, err := orderdb.New(tx).Amend(ctx, orderdb.AmendParams{
		OrderNo: no, Bucket: no.Bucket(), Line: line, Actor: ShopperIn(ctx), Freight: freight, Discount: discount,
	})
	o, err := table.Announce(ctx, tx, orderevent.SubjectAmended, row, err)
	if err != nil {
		return orderevent.Order{}, fmt.Errorf("order: amend the %s of %s: %w", line, no, err)
	}
	return o, nil
}

// SetFreight changes the freight of a pending order that LockPending returned, and with it
// the amount. After the commit the caller calls Refresh.
func (s *Service) SetFreight(ctx context.Context, tx pgx.Tx, o orderevent.Order, freight int64) (orderevent.Order, error) {
	return amend(ctx, tx, o.No, "freight", freight, o.Discount)
}

// returnCoupons gives back the coupons of orders that tx has ended. It costs nothing
// for orders without a discount.
func (s *Service) returnCoupons(ctx context.Context, tx pgx.Tx, ended []orderevent.Order) error {
	var nos []ids.ID
	for i := range ended {
		if ended[i].Discount > 0 {
			nos = append(nos, ended[i].No)
		}
	}
	if nos == nil {
		return nil
	}
	return s.coupons.Return(ctx, tx, nos)
}

// ownOrder returns a user's order as it is in Postgres, or ErrNotFound.
func (s *Service) ownOrder(ctx context.Context, no ids.ID, user int64) (orderevent.Order, error) {
	row, err := table.Read(ctx, s.deps.DB, no, ErrNotFound)
	if err == nil && row.UserID != user {
		err = ErrNotFound
	}
	if err != nil {
		return orderevent.Order{}, err
	}
	return row.Order(), nil
}
