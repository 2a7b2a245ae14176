package sandbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/store/pg"
)

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
