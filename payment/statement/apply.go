package statement

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"stampede/payment/provider"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// maxFailed is how many failures a report names.
const maxFailed = 20

// apply settles what the comparison proposes, and compares again. The audit log gets each
// page of it first: a settlement that it does not know cannot happen, and one that it knows
// can be repeated.
func (s *Service) apply(ctx context.Context, t target) (*Settled, error) {
	done := new(Settled)
	for after := (Unmatched{}); ; {
		all, err := s.differences(ctx, t, after)
		if err != nil {
			return done, err
		}
		if len(all) == 0 {
			break
		}
		after = all[len(all)-1]
		all = slices.DeleteFunc(all, func(d Unmatched) bool { return d.Proposal != settleIt })
		if len(all) == 0 {
			continue
		}
		err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
			return audit.Record(ctx, tx, "statement.apply", "statement "+t.name+" "+t.day.Date(), audit.Change{Before: all})
		})
		if err != nil {
			return done, err
		}
		for _, d := range all {
			if err := s.settle(ctx, t.name, d); err == nil {
				done.Count++
			} else if len(done.Failed) < maxFailed {
				done.Failed = append(done.Failed, fmt.Sprintf("%s %s: %v", d.Kind, d.Transaction, err))
			}
			if ctx.Err() != nil {
				return done, ctx.Err()
			}
		}
	}
	return done, s.compare(ctx, t.name, civil(t.day))
}

// settle applies one missing movement.
func (s *Service) settle(ctx context.Context, name string, d Unmatched) error {
	merchant := s.named[name].Profile().Merchant
	if d.Kind == string(provider.Paid) {
		_, err := s.deps.Settle(ctx, name, provider.Capture{
			Merchant: merchant, PaymentNo: d.paymentNo, Transaction: d.Transaction, Amount: d.Stated.Amount, Currency: d.Stated.Currency, At: d.at,
		})
		return err
	}
	back := provider.RefundStatus{
		State: provider.Succeeded, Merchant: merchant, RefundNo: d.refundNo, PaymentNo: d.paymentNo, Transaction: d.Transaction,
		Amount: d.Stated.Amount, Currency: d.Stated.Currency, At: d.at,
	}
	if d.takenBack() {
		back.State = provider.Failed
	}
	return s.deps.SettleRefund(ctx, name, back)
}
