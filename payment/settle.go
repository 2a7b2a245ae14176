package payment

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"

	"stampede/order/orderevent"
	"stampede/payment/chargeback"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/paymentevent"
	"stampede/payment/provider"
	"stampede/payment/refund"
	"stampede/platform/base/app"
	"stampede/platform/base/failpoint"
	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
)

// afterPayment is where a test ends the process or makes a settlement fail.
var afterPayment = failpoint.NewErr("after-payment",
	"A capture is written down, and neither its provider nor its shopper has an answer.")

// The outcomes of a capture; also the label of the captures metric, and for the
// last three the reason of the refund.
const (
	outcomePaid      = "paid"
	outcomeRetaken   = "retaken"   // the order was closed, and is paid with units of the backup
	outcomeRepeated  = "repeated"  // recorded before
	outcomeLate      = "late"      // the order is closed or refused
	outcomeDuplicate = "duplicate" // the order was paid by another capture
	outcomeMismatch  = "mismatch"  // another amount than was charged
)

// Kinds of ledger rows.
const (
	kindCapture = "capture"
	kindRefund  = "refund"
)

// source is how we learned of a capture.
type source bool

const (
	// told by a callback: if the amount differs, the provider is queried before
	// anything is written.
	told source = false
	// asked: the provider's answer to our query, which states what moved.
	asked source = true
)

// settle applies a movement of money that a provider reports, once, however
// often and through however many instances it is reported:
//
//	ledger row written     for the first time; else nothing happens (repeated)
//	order still pending    → paid, with the event
//	another coupon since   → refund, reason mismatch: the order costs another amount now
//	order closed           → paid, with units of the backup if they suffice, unless
//	                         an operator has closed it
//	otherwise, or refused  → refund, reason late
//	order paid otherwise   → refund, reason duplicate
//	another amount, asked  → refund of what moved, reason mismatch, and an alarm
//	another amount, told   → an alarm; the provider is queried, and its answer settled
func (bk *books) settle(ctx context.Context, name string, c provider.Capture, from source) (string, error) {
	if err := bk.ours(ctx, name, c.Merchant); err != nil {
		return "", err
	}
	out, err := bk.settleAlone(ctx, name, c, from)
	if err == nil {
		err = afterPayment.Err()
	}
	bk.raiseAbout(ctx, err, name, "payment "+c.PaymentNo.String(), c.Transaction)
	if errors.Is(err, provider.ErrMismatch) && from == told {
		p, askErr := bk.q.Payment(ctx, paymentdb.PaymentParams{PaymentNo: c.PaymentNo, Bucket: c.PaymentNo.Bucket()})
		if askErr == nil {
			if st, askErr := bk.named[name].Query(ctx, named(p)); askErr == nil && st.State == provider.Captured {
				return bk.settle(ctx, name, st.Capture, asked)
			}
		}
	}
	if err != nil {
		return "", fmt.Errorf("payment: settle %s: %w", c.PaymentNo, err)
	}
	bk.announce(ctx, name, c, out)
	return out.outcome, nil
}

// books settle what providers report: captures, refunds and chargebacks.
type books struct {
	*gateway
	Refunds     *refund.Service
	chargebacks *chargeback.Service
	// Wakes the refund worker; capacity 1: one pending wake-up is enough.
	refundNow chan struct{}
}

func newBooks(g *gateway) *books {
	bk := &books{gateway: g, refundNow: make(chan struct{}, 1)}
	bk.Refunds = refund.New(g.cfg.Refunds, refund.Deps{DB: g.deps.DB, Standby: g.deps.Standby, Orders: g.deps.Orders, Plan: g.deps.Plan, MakerOf: g.deps.MakerOf, Requested: bk.refundRequested})
	bk.chargebacks = chargeback.New(g.deps.DB, bk.Refunds)
	return bk
}

// spanSettle is the span in which a capture is settled; the events of its
// transaction carry it on.
const spanSettle = "settle payment"

// settled is what a transaction decided, for the steps after its commit.
type settled struct {
	outcome string
	order   orderevent.Order // its current state; set unless repeated or mismatch
	orderNo ids.ID           // set unless repeated
	refund  bool
}

// pays reports whether the money paid the order.
func (o *settled) pays() bool { return o.outcome == outcomePaid || o.outcome == outcomeRetaken }

// settleAlone runs settleIn in its own transaction.
func (bk *books) settleAlone(ctx context.Context, name string, c provider.Capture, from source) (out settled, err error) {
	ctx, span := bk.deps.Trace.Child(ctx, spanSettle)
	err = pg.InTx(ctx, bk.deps.DB, func(tx pgx.Tx) error {
		var err error
		out, err = bk.settleIn(ctx, tx, name, c, from)
		return err
	})
	if span.On() {
		span.Set(attribute.String("order_no", out.orderNo.String()), attribute.String("outcome", out.outcome))
		span.End(err)
	}
	return out, err
}

// settleIn is settle inside a transaction. The transaction must not have locked
// a row of payments that other transactions can see: the order's lock comes
// first.
func (bk *books) settleIn(ctx context.Context, tx pgx.Tx, name string, c provider.Capture, from source) (settled, error) {
	q := bk.q.WithTx(tx)
	bucket := c.PaymentNo.Bucket()
	row, err := q.RecordCapture(ctx, paymentdb.RecordCaptureParams{
		Provider: name, ProviderTxn: c.Transaction, PaymentNo: c.PaymentNo, Bucket: bucket, Amount: c.Amount, Currency: c.Currency, Believed: from == asked,
	})
	p := row.PaymentsPayment
	if errors.Is(err, pgx.ErrNoRows) || err == nil && p.Provider != name {
		return settled{}, provider.ErrUnknown
	}
	if err != nil {
		return settled{}, err
	}
	fits := c.Amount == p.Amount && c.Currency == p.Currency
	if c.Amount < 0 {
		return settled{}, provider.ErrMismatch // an amount cannot be negative, whatever the source
	}
	if !fits && from == told {
		// A repetition of a capture that has been settled since is acknowledged, so that the provider
		// stops.
		known, err := bk.moved(ctx, q, name, kindCapture, c.Transaction, c.PaymentNo)
		if err == nil && !known {
			err = provider.ErrMismatch
		}
		return settled{outcome: outcomeRepeated}, err
	}
	if !row.Recorded {
		_, err := bk.moved(ctx, q, name, kindCapture, c.Transaction, c.PaymentNo)
		return settled{outcome: outcomeRepeated}, err
	}
	out := settled{outcome: outcomeMismatch}
	if fits {
		p.ProviderTxn = c.Transaction
		out, err = bk.payOrder(ctx, tx, p)
	} else {
		err = alarmMismatch.Raise(ctx, tx, "payment "+p.PaymentNo.String(), fmt.Sprintf("%s moved, %s was charged.", money(c.Amount, c.Currency), money(p.Amount, p.Currency)))
	}
	if err != nil {
		return settled{}, err
	}
	if _, err := q.CapturePayment(ctx, paymentdb.CapturePaymentParams{ProviderTxn: c.Transaction, PaymentNo: p.PaymentNo, Bucket: bucket}); err != nil {
		return settled{}, err
	}
	out.orderNo = p.OrderNo
	if out.pays() || c.Amount <= 0 {
		return out, nil
	}
	_, err = q.RequestRefund(ctx, paymentdb.RequestRefundParams{
		Bucket: bucket, RefundNo: ids.NewFor(p.UserID), PaymentNo: p.PaymentNo, OrderNo: p.OrderNo, UserID: p.UserID, Provider: name,
		CaptureTxn: c.Transaction, Amount: c.Amount, Currency: c.Currency, Reason: out.outcome,
	})
	if err != nil {
		return out, err
	}
	out.refund = true
	if _, err = outbox.Append(ctx, tx, paymentevent.SubjectSurplus, paymentevent.Surplus{
		PaymentNo: p.PaymentNo, OrderNo: p.OrderNo, UserID: p.UserID, Amount: c.Amount, Currency: c.Currency, Reason: out.outcome,
	}); err != nil {
		return out, err
	}
	if fits {
		err = alarmLate.Raise(ctx, tx, "provider "+name, fmt.Sprintf("Payment %s: %s.", p.PaymentNo, out.outcome))
	}
	return out, err
}

// payOrder marks the payment's order paid, also a closed one if its item has units
// in the backup, or returns why it cannot be paid any more. An order that an operator
// canceled stays closed: its shopper reads that the shop does not sell it.
func (bk *books) payOrder(ctx context.Context, tx pgx.Tx, p paymentdb.PaymentsPayment) (settled, error) {
	by := orderevent.PaidBy{PaymentNo: p.PaymentNo, Provider: p.Provider, Method: string(p.Method), ProviderTxn: p.ProviderTxn}
	o, paid, err := bk.deps.Orders.MarkPaid(ctx, tx, p.OrderNo, by, p.Amount)
	if err != nil {
		return settled{}, err
	}
	outcome := outcomePaid
	if !paid && o.Status == orderevent.StatusClosed && o.Reason != orderevent.ReasonWithdrawn && o.Amount() == p.Amount {
		outcome = outcomeRetaken
		if o, paid, err = bk.deps.Orders.Retake(ctx, tx, o, by); err != nil {
			return settled{}, err
		}
	}
	if !paid {
		switch o.Status {
		case orderevent.StatusClosed, orderevent.StatusRefused:
			return settled{outcome: outcomeLate, order: o}, nil
		case orderevent.StatusPending:
			return settled{outcome: outcomeMismatch, order: o}, nil
		default:
			return settled{outcome: outcomeDuplicate, order: o}, nil
		}
	}
	_, err = outbox.Append(ctx, tx, paymentevent.SubjectCaptured, paymentevent.Captured{
		PaymentNo: p.PaymentNo, OrderNo: p.OrderNo, UserID: p.UserID, Amount: p.Amount, Currency: p.Currency,
	})
	return settled{outcome: outcome, order: o}, err
}

// moved reports whether the movement is in the ledger. If it belongs to another
// payment the error is provider.ErrReused: a correct provider never gives two movements
// one number.
func (bk *books) moved(ctx context.Context, q *paymentdb.Queries, name, kind, txn string, paymentNo ids.ID) (bool, error) {
	row, err := q.Movement(ctx, paymentdb.MovementParams{Provider: name, Kind: kind, ProviderTxn: txn})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err == nil && row.PaymentNo != paymentNo {
		err = provider.ErrReused
	}
	return err == nil, err
}

// announce does what follows the commit. None of it is required for
// correctness: events and rows are committed, this only makes them visible
// sooner.
func (bk *books) announce(ctx context.Context, name string, c provider.Capture, out settled) {
	bk.metrics.captures.WithLabelValues(name, out.outcome).Inc()
	bk.deps.Tally.Count(out.order.ItemID, stagePayments, out.outcome, 1)
	if out.pays() {
		bk.deps.Orders.Committed(ctx, out.order)
	}
	if out.outcome == outcomeRetaken {
		bk.deps.Log.InfoContext(ctx, "late payment accepted with units of the backup", "provider", name, "payment_no", c.PaymentNo, "order_no", out.orderNo)
	}
	if out.refund {
		bk.metrics.refunds.WithLabelValues(name, "requested").Inc()
		bk.deps.Log.WarnContext(ctx, "captured money has to be refunded", "provider", name, "payment_no", c.PaymentNo,
			"order_no", out.orderNo, "reason", out.outcome, "money", money(c.Amount, c.Currency))
		app.Kick(bk.refundNow)
	}
}

// money formats an amount for people, in the currency's unit.
func money(amount int64, currency string) string {
	return orderevent.Money{Amount: amount, Currency: currency}.String()
}
