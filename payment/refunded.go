package payment

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
	"stampede/payment/refund"
	"stampede/platform/base/ids"
)

// settleRefund applies what a provider reports of a refund, once. A report that
// contradicts how the refund ended is not believed: the provider is asked.
func (bk *books) settleRefund(ctx context.Context, name string, r provider.RefundStatus, from source) error {
	if err := bk.ours(ctx, name, r.Merchant); err != nil {
		return err
	}
	if from == told {
		row, err := bk.q.Refund(ctx, paymentdb.RefundParams{RefundNo: r.RefundNo, Bucket: r.RefundNo.Bucket()})
		if err == nil && row.Provider == name && refund.Contradicts(row, r.State) {
			if r, err = bk.requestRefund(ctx, row); err != nil {
				return fmt.Errorf("payment: ask for refund %s: %w", row.RefundNo, err)
			}
		}
	}
	var err error
	switch r.State {
	case provider.Succeeded:
		err = bk.refundSucceeded(ctx, name, r)
	case provider.Failed:
		err = bk.refundFailed(ctx, r.RefundNo, name, "the provider reports that the refund failed")
	case provider.Processing: // nothing has happened yet
	}
	bk.raiseAbout(ctx, err, name, "refund "+r.RefundNo.String(), r.Transaction)
	if err != nil {
		return fmt.Errorf("payment: settle refund %s: %w", r.RefundNo, err)
	}
	return nil
}

// refundSucceeded records that money was refunded, once however often it is
// reported.
func (bk *books) refundSucceeded(ctx context.Context, name string, r provider.RefundStatus) error {
	done, err := bk.Refunds.Succeeded(ctx, name, r)
	if done {
		bk.countEnd(ctx, name, r.RefundNo, "succeeded")
	}
	return err
}

// refundFailed ends a refund that the provider will never make.
func (bk *books) refundFailed(ctx context.Context, no ids.ID, name, why string) error {
	changed, err := bk.Refunds.Failed(ctx, no, name, why)
	if changed {
		bk.countEnd(ctx, name, no, "failed")
	}
	return err
}

// chargedBack records what a provider reports of a chargeback.
func (bk *books) chargedBack(ctx context.Context, name string, c provider.Chargeback) error {
	if err := bk.ours(ctx, name, c.Merchant); err != nil {
		return err
	}
	err := bk.chargebacks.Record(ctx, name, c)
	if errors.Is(err, provider.ErrUnknown) {
		// A company reports every chargeback of the account, which the shop may use elsewhere too. One of ours that
		// was missed is in the statement.
		bk.deps.Log.InfoContext(ctx, "chargeback of no payment of ours", "provider", name, "chargeback", c.No, "capture", c.Capture)
		return nil
	}
	bk.raiseAbout(ctx, err, name, "chargeback "+c.No, "")
	return err
}

// refundRequested follows the commit of a refund that was asked for.
func (bk *books) refundRequested(r refund.AdminRefund) {
	bk.metrics.refunds.WithLabelValues(r.Provider, "requested").Inc()
	bk.wakeRefunds()
}

// Forget removes what a user wrote about refunds, in the transaction that erases the
// account. What operators wrote stays with the books.
func (s *Service) Forget(ctx context.Context, tx pgx.Tx, user int64) error {
	if err := s.q.WithTx(tx).ForgetNotes(ctx, paymentdb.ForgetNotesParams{Bucket: ids.Bucket(user), UserID: user}); err != nil {
		return fmt.Errorf("payment: forget notes: %w", err)
	}
	return nil
}

// wakeRefunds wakes the refund worker. It never blocks.
func (bk *books) wakeRefunds() {
	select {
	case bk.refundNow <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// countEnd counts how a refund ended, also in its item's funnel. Its order names the
// item; a refund whose order cannot be read is not counted there.
func (bk *books) countEnd(ctx context.Context, name string, no ids.ID, end string) {
	bk.metrics.refunds.WithLabelValues(name, end).Inc()
	if bk.deps.Tally == nil {
		return
	}
	r, err := bk.q.Refund(ctx, paymentdb.RefundParams{RefundNo: no, Bucket: no.Bucket()})
	if err == nil {
		o, _, getErr := bk.deps.Orders.Get(ctx, r.OrderNo)
		bk.deps.Tally.Count(o.ItemID, stageRefunds, end, 1)
		err = getErr
	}
	if err != nil {
		bk.deps.Log.WarnContext(ctx, "refund not counted in the funnel", "refund_no", no, "error", err)
	}
}
