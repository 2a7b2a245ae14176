package refund

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/paymentevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/store/outbox"
	"stampede/platform/watch/audit"
)

// Why an order is not refunded.
var (
	ErrNotRefundable = fault.New(fault.Conflict, "order-not-refundable",
		fault.T("This order cannot be refunded now", "订单当前不可退款"),
		fault.T("Only an order that is paid or completed can be refunded, and only until all of it is.",
			"只有已付款或已完成、且未全额退款的订单可以退款。"),
		fault.T("Read the order: cancel it if it is unpaid. If it is refunding, follow that refund.",
			"请查看订单：未付款的可取消，退款中的请跟进退款进度。"))
	ErrTooMuch = fault.New(fault.Conflict, "refund-exceeds",
		fault.T("The refund is more than what is left", "退款金额超过可退余额"),
		fault.T("The refund exceeds what is left of the payment after the refunds that were asked for before.",
			"退款金额超过扣除此前申请后的可退余额。"),
		fault.T("Refund no more than the amount in left.", "请将金额改为不超过可退余额。"))
	ErrNothing = fault.New(fault.Invalid, "refund-of-nothing",
		fault.T("The refund must be more than zero", "退款金额须大于 0"),
		fault.T("The amount is zero. Send one above zero, or leave the amount out to refund all that is left.",
			"金额为 0。请填写大于 0 的金额，退全部余款请留空。"),
		fault.T("Send an amount above zero; leave it out to refund all that is left.", "请填写大于 0 的金额；退全部余款请留空。"))
	errCurrency = fault.Plain(fault.Invalid,
		fault.T("The amount is in another currency than the payment.", "退款货币与支付货币不一致。"))
	errNotAllowed = fault.New(fault.Conflict, "refund-not-allowed",
		fault.T("You cannot refund this order yourself", "该订单不支持自助退款，请联系商家"),
		fault.T("The activity does not let shoppers refund this order, or not any more; ask the shop.",
			"该活动不支持自助退款，或已超过可退时间，请联系商家。"),
		fault.T("Ask the shop for the refund.", "请联系商家办理退款。"))
	errChargedBack = fault.New(fault.Conflict, "payment-charged-back",
		fault.T("The shopper's bank has taken this payment back, or a part of it", "该笔支付已被持卡行全部或部分拒付"),
		fault.T("A refund of more than the bank has left would pay the shopper twice. Answer the chargeback in the "+
			"provider's console; once the money is back, refund it here. If the shop loses it, end a failed "+
			"refund by the chargeback.",
			"退款超过拒付后的余额会让顾客重复收款。请先在支付渠道后台处理拒付，款项退回后再退款；若败诉，可将失败的退款标记为由拒付抵偿。"),
		fault.T("Ask for at most what left says. For the rest, answer the chargeback at the provider; refund once "+
			"its money is back. If it is lost, end a failed refund by it.",
			"退款金额请不超过可退余额；其余部分请先在支付渠道处理拒付，款项退回后再退款；若已败诉，可将失败的退款标记为由拒付抵偿。"))
	errNoKey = fault.New(fault.Invalid, "idempotency-key-required",
		fault.T("A partial refund needs an Idempotency-Key", "部分退款须携带 Idempotency-Key"),
		fault.T("Two equal partial refunds look like one that was sent twice. Send an Idempotency-Key header, new "+
			"for each refund and the same when a request is repeated.",
			"两笔金额相同的部分退款无法与重复提交区分。请携带 Idempotency-Key 请求头，每笔退款使用新的值，重试时保持不变。"),
		fault.T("Send an Idempotency-Key header, new for each refund.", "请携带 Idempotency-Key 请求头，每笔退款使用新的值。"))
	errNoOrder = fault.Plain(fault.NotFound, fault.T("There is no order with this number.", "没有该订单号的订单。"))
)

// Request asks to refund a paid order, in whole or in part.
type Request struct {
	OrderNo ids.ID
	Amount  *orderevent.Money // nil is all that is left; zero and another currency than the order's are refused
	Reason  string            // ByShopper, ByOperator or ByDispute
	Note    string            // in the words of who asks; at most 500 characters
	By      int64             // the user who asks; 0 is the system
	Units   string            // UnitsReturn or UnitsWriteOff; empty leaves it to the activity's rule
	// Also, if not nil, runs in the transaction that asks for the refund, which may run it
	// again, and commits with it.
	Also func(ctx context.Context, tx pgx.Tx, refund ids.ID) error `json:"-"`
}

// Why a refund was asked for.
const (
	ByShopper  = "shopper"
	ByOperator = "operator"
	ByDispute  = "dispute"
)

// What becomes of the units of an order that is refunded in whole.
const (
	UnitsReturn   = "return"    // back on sale
	UnitsWriteOff = "write_off" // never sold again: with the shopper, damaged or lost
)

// Request asks for a refund in a transaction of its own, as idempotency.Once with the
// key, and returns it. It fails with order-not-refundable, refund-exceeds, for shoppers
// refund-not-allowed, or not-found; a refund of zero with refund-of-nothing, because an
// operator who types 0.00 does not mean all that is left. An operator's refund of a
// part without a key fails with idempotency-key-required.
func (s *Service) Request(ctx context.Context, key string, r Request) (made AdminRefund, err error) {
	if r.Amount != nil && r.Amount.Amount <= 0 {
		return made, ErrNothing
	}
	if key == "" && r.Amount != nil && r.Reason == ByOperator {
		return made, errNoKey
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	err = s.move(ctx, r.OrderNo, actor(ctx, r), nil, func(c *change) error {
		made, err = idempotency.Once(ctx, c.tx, key, "refund.request", r, func() (AdminRefund, error) { return s.request(ctx, c, r) })
		if err == nil && r.Also != nil {
			err = r.Also(ctx, c.tx, made.RefundNo)
		}
		return err
	}, nothing)
	if err != nil {
		return AdminRefund{}, fmt.Errorf("refund: order %s: %w", r.OrderNo, err)
	}
	s.wake(made)
	return made, nil
}

func (s *Service) wake(r AdminRefund) {
	if r.Status == requested {
		s.deps.Requested(r)
	}
}

// nothing follows a change that moves no money.
func nothing(pgx.Tx, bool) error { return nil }

// actor is who asks, for the order's history.
func actor(ctx context.Context, r Request) string {
	if r.By == 0 {
		return "system"
	}
	if r.Reason == ByShopper {
		return order.ShopperIn(ctx)
	}
	return operatorActor(r.By)
}

func operatorActor(by int64) string { return "operator " + httpx.FormatID(by) }

// request writes the refund's row.
func (s *Service) request(ctx context.Context, c *change, r Request) (none AdminRefund, err error) {
	if r.Reason == ByShopper && c.order.UserID != r.By {
		return none, order.ErrNotFound
	}
	b, err := readBook(ctx, c.q, c.order)
	if err != nil {
		return none, err
	}
	if !b.paid || c.order.Status != orderevent.StatusPaid && c.order.Status != orderevent.StatusCompleted {
		return none, ErrNotRefundable.With("order_status", c.order.Status)
	}
	if r.Amount != nil && r.Amount.Currency != b.paying.Currency {
		return none, errCurrency.At(r.field()+".currency", fault.T("Use {code}.", "请使用 {code}。", "code", b.paying.Currency))
	}
	within, writeOff, err := s.deps.Plan.RefundRule(ctx, c.order.ActivityID)
	if err != nil {
		return none, err
	}
	_, sent, err := order.SentAt(ctx, c.tx, c.order.No)
	if err != nil {
		return none, err
	}
	if r.Reason == ByShopper && (sent || !allowed(within, c.order, b)) {
		return none, errNotAllowed
	}
	back, err := chargedBack(ctx, c.q, &b)
	if err != nil {
		return none, err
	}
	amount := back.Rest
	if r.Amount != nil {
		amount = r.Amount.Amount
	}
	left := orderevent.Money{Amount: max(back.Rest, 0), Currency: b.paying.Currency}
	switch {
	case back.Held > 0 && (amount <= 0 || amount > back.Rest || r.Reason == ByShopper): // a shopper returns the whole order
		return none, errChargedBack.With("left", left)
	case amount > back.Rest || amount == 0 && b.paying.Amount > 0:
		return none, tooMuch(r, left)
	}
	units := r.Units
	switch {
	case units != "":
	case sent || c.order.Status == orderevent.StatusCompleted || writeOff:
		units = UnitsWriteOff // goods that left the shop are not sold again until an operator says otherwise
	default:
		units = UnitsReturn
	}
	status := requested
	if above := s.set.RefundApprovalAbove; above > 0 && r.Reason != ByShopper && b.byOperators+amount > above {
		status = awaiting
	}
	row, err := c.q.AskRefund(ctx, paymentdb.AskRefundParams{
		Bucket: b.paying.Bucket, RefundNo: ids.NewFor(b.paying.UserID), PaymentNo: b.paying.PaymentNo, OrderNo: c.order.No, UserID: b.paying.UserID,
		Provider: b.paying.Provider, CaptureTxn: b.paying.ProviderTxn, Amount: amount, Currency: b.paying.Currency,
		Reason: r.Reason, Status: status, Note: r.Note, RequestedBy: r.By, Units: units,
	})
	if err != nil {
		return none, fmt.Errorf("refund: write: %w", err)
	}
	if status == awaiting {
		if _, err := outbox.Append(ctx, c.tx, paymentevent.SubjectRefundAwaiting, paymentevent.RefundAwaiting{Refund: told(&row)}); err != nil {
			return none, err
		}
	}
	if r.Reason == ByOperator {
		if err := order.NoteRefund(ctx, c.tx, &c.order, r.Note); err != nil {
			return none, err
		}
	}
	view := viewOf(row)
	if r.Reason == ByShopper {
		return view, nil // the audit log is about operators
	}
	return view, audit.Record(ctx, c.tx, "refund.request", subject(row.RefundNo), audit.Change{After: audited(row)})
}

// tooMuch refuses an amount above what is left, and marks the member that has it.
func tooMuch(r Request, left orderevent.Money) error {
	refused := ErrTooMuch.Saying(
		fault.T("At most {left} can still be refunded; refunds that were asked for before count.",
			"最多还可退 {left}（已扣除此前申请的退款）。", "left", left)).With("left", left)
	if r.Amount == nil {
		return refused
	}
	return refused.At(r.field(), fault.T("At most {left}.", "最多可退 {left}。", "left", left))
}

// field is where a request's body has the amount.
func (r *Request) field() string {
	if r.Reason == ByDispute {
		return "body.refund.amount"
	}
	return "body.amount"
}

// subject names a refund in the audit log and in alarms.
func subject(no ids.ID) string { return "refund " + no.String() }

// Until returns until when the shopper may refund an order that was not sent: the zero time if not, or not any more.
func (s *Service) Until(ctx context.Context, o orderevent.Order) (until time.Time, err error) {
	within, _, err := s.deps.Plan.RefundRule(ctx, o.ActivityID)
	if err != nil || within <= 0 {
		return until, err
	}
	b, err := readBook(ctx, s.q, o)
	if err != nil || !b.paid || !allowed(within, o, b) {
		return until, err
	}
	back, err := chargedBack(ctx, s.q, &b)
	if err != nil || back.Held > 0 {
		return until, err
	}
	return b.paying.PaidAt.Add(within), nil
}

// chargedBack is what banks have taken of a book's capture, and what is left of it.
func chargedBack(ctx context.Context, q *paymentdb.Queries, b *book) (paymentdb.ChargedBackRow, error) {
	back, err := q.ChargedBack(ctx, paymentdb.ChargedBackParams{Provider: b.paying.Provider, CaptureTxn: b.paying.ProviderTxn, Bucket: b.paying.Bucket})
	if err != nil {
		return back, fmt.Errorf("refund: read chargebacks of capture %s: %w", b.paying.ProviderTxn, err)
	}
	return back, nil
}

// allowed reports whether the activity lets a shopper refund this order: as a whole,
// before it is sent or completed, and for so long after it was paid.
func allowed(within time.Duration, o orderevent.Order, b book) bool {
	return o.Status == orderevent.StatusPaid && b.asked == 0 && within > 0 && b.paying.Now.Sub(b.paying.PaidAt) < within
}
