package sandbox

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
)

// check refuses what the bank could not carry out.
func (c Repayment) check() error {
	switch {
	case !numberPattern.MatchString(c.RefundNo) || !numberPattern.MatchString(c.PaymentNo):
		return invalid("refund_no and payment_no are 1 to 64 letters, digits, - or _")
	case c.Amount <= 0:
		return invalid("amount is in minor units and above 0")
	case checkURL(c.NotifyURL) != nil:
		return invalid("notify_url is an absolute http or https address")
	}
	return nil
}

// startRefund reserves the amount on the payment's row, which every refund of it
// locks, and records the refund: two refunds that together exceed the capture
// cannot both be accepted.
func (d Desk) startRefund(ctx context.Context, c Repayment) error {
	b := d.bank
	return pg.InTx(ctx, b.db, func(tx pgx.Tx) error {
		q := b.q.WithTx(tx)
		p, err := q.SetAsideRefund(ctx, sandboxdb.SetAsideRefundParams{
			Amount: c.Amount, Merchant: d.merchant, PaymentNo: c.PaymentNo, Txn: c.Transaction, Currency: c.Currency,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return refuse(http.StatusConflict, "not-refundable", "no such capture, or less than that is left of it")
		}
		if err != nil {
			return err
		}
		var bounces *int64
		if Behaviour(p.Behaviour) == RefundBounces {
			bounces = new((time.Duration(p.DelaySeconds) * time.Second).Milliseconds())
		}
		return q.CreateRefund(ctx, sandboxdb.CreateRefundParams{
			Ref: ids.New(), Merchant: d.merchant, RefundNo: c.RefundNo, PaymentRef: p.Ref, PaymentNo: c.PaymentNo, Amount: c.Amount,
			Currency: c.Currency, Fails: Behaviour(p.Behaviour) == RefundFails, BouncesMs: bounces, NotifyUrl: c.NotifyURL,
			DelayMs: b.cfg.RefundDelay.Milliseconds(),
		})
	})
}

// settleRefunds settles the refunds that are due and takes back those that bounce, with
// a callback for each in the same transaction, and returns how many.
func (b *Bank) settleRefunds(ctx context.Context) (int, error) {
	n := 0
	err := pg.InTx(ctx, b.db, func(tx pgx.Tx) error {
		q := b.q.WithTx(tx)
		settled, err := q.SettleDueRefunds(ctx, batch)
		if err != nil {
			return err
		}
		bounced, err := q.BounceDueRefunds(ctx, batch)
		if err != nil {
			return err
		}
		settled = append(settled, bounced...)
		n = len(settled)
		for _, r := range settled {
			if r.Status == StatusFailed {
				// The money is available again for another attempt.
				if err := q.GiveBackSetAside(ctx, sandboxdb.GiveBackSetAsideParams{Amount: r.Amount, Ref: r.PaymentRef}); err != nil {
					return err
				}
			}
			p, err := q.PaymentByRef(ctx, r.PaymentRef)
			if err != nil {
				return err
			}
			back := returned(r)
			if err := b.enqueue(ctx, q, r.Merchant, r.NotifyUrl, 0, Event{Payment: b.shown(p), Refund: &back}); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// returned is a refund as its merchant sees it.
func returned(r sandboxdb.SandboxRefund) Refund {
	out := Refund{Ref: r.Ref, No: r.RefundNo, PaymentNo: r.PaymentNo, Status: r.Status, Amount: r.Amount, Currency: r.Currency}
	if r.Status != StatusProcessing {
		out.Transaction, out.At = "sbr-"+r.Ref.String(), r.UpdatedAt // as the statement has it
	}
	return out
}

// Dispute is a chargeback of a payment's whole capture. Its number is the payment's Ref.
type Dispute struct {
	Asked bool // the bank only inquires
	Moved bool // the report is about the money, not about how the dispute stands
	Ended bool
	Won   bool // set once it has ended
}

// advanceDisputes begins and ends the chargebacks that are due, with their callbacks in
// the same transaction, and returns how many.
func (b *Bank) advanceDisputes(ctx context.Context) (n int, err error) {
	err = pg.InTx(ctx, b.db, func(tx pgx.Tx) error {
		q := b.q.WithTx(tx)
		due, err := q.AdvanceDisputes(ctx, batch)
		if err != nil {
			return err
		}
		n = len(due)
		for _, p := range due {
			d := Dispute{Ended: p.DisputeEndedAt != nil}
			d.Won = d.Ended && Behaviour(p.Behaviour) == ChargebackWon
			if err := b.reportDispute(ctx, q, p, d); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// reportDispute reports that a dispute has begun or ended, and what moved with that.
func (b *Bank) reportDispute(ctx context.Context, q *sandboxdb.Queries, p sandboxdb.SandboxPayment, d Dispute) error {
	if err := b.enqueue(ctx, q, p.Merchant, p.NotifyUrl, 0, Event{Payment: b.shown(p), Dispute: &d}); err != nil {
		return err
	}
	if d.Moved = !d.Ended || d.Won; !d.Moved {
		return nil
	}
	return b.enqueue(ctx, q, p.Merchant, p.NotifyUrl, 0, Event{Payment: b.shown(p), Dispute: &d})
}
