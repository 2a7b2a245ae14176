package sandbox

import (
	"context"
	"iter"
	"net/http"
	"time"

	"stampede/payment/provider"
	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
)

// Movement is a line of the bank's statement: a capture, or a refund that succeeded; one
// that bounced has a second line with the amount below 0. Bounced marks both lines of such
// a refund. ChargedBack marks a chargeback, with the amount below 0 where the merchant won
// it back. Ref is the payment's or the refund's; RefundNo is empty for a capture.
type Movement = sandboxdb.MovementsRow

// Mark is a place in a statement: after the movement with this time and number.
type Mark struct {
	At  time.Time `json:"after_time"`
	Ref ids.ID    `json:"after_ref"`
}

const (
	// codeNotReady is the error of a statement that is not made yet.
	codeNotReady = "not-ready"
	// statementPage is how many movements fit into a message.
	statementPage = 32
	// dayPage is how many are read of the books at a time.
	dayPage = 1000
)

// Movements returns a page of what moved on a day, oldest first, after a place; the zero
// Mark is the beginning. A day is stated once it is over.
func (d Desk) Movements(ctx context.Context, day provider.Day, after Mark, atMost int32) ([]Movement, error) {
	now, err := pg.Now(ctx, d.bank.db)
	if err != nil {
		return nil, err
	}
	if now.Before(day.To) {
		return nil, refuse(http.StatusNotFound, codeNotReady, "the day is not over")
	}
	return d.bank.q.Movements(ctx, sandboxdb.MovementsParams{
		Merchant: d.merchant, FromTime: day.From, ToTime: day.To, AfterTime: after.At, AfterRef: after.Ref, AtMost: atMost,
	})
}

// Day is all that moved on a day as the Chinese companies state it: without chargebacks,
// and without refunds that bounced. It ends with the first error.
func (d Desk) Day(ctx context.Context, day provider.Day) iter.Seq2[Movement, error] {
	return func(yield func(Movement, error) bool) {
		for after := (Mark{}); ; {
			rows, err := d.Movements(ctx, day, after, dayPage)
			if err != nil {
				yield(Movement{}, err)
				return
			}
			for _, m := range rows {
				after = Mark{m.At, m.Ref}
				if !m.Bounced && !m.ChargedBack && !yield(m, nil) {
					return
				}
			}
			if len(rows) < dayPage {
				return
			}
		}
	}
}
