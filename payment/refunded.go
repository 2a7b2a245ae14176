package payment

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/payment/chargeback"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
	"stampede/payment/refund"
	"stampede/platform/base/ids"
)

// settleRefund applies what a provider reports of a refund, once. A report that
// contradicts how the refund ended is not believed: the provider is asked.
func (s *Service) settleRefund(ctx context.Context, name string, r provider.RefundStatus, from source) error {
	if r.Merchant != s.named[name].Profile().Merchant {
		s.raise(ctx, alarmForeignMerchant, name, "")
		return errForeign
	}
	if from == told {
		row, err := s.q.Refund(ctx, paymentdb.RefundParams{RefundNo: r.RefundNo, Bucket: r.RefundNo.Bucket()})
		if err == nil && row.Provider == name && refund.Contradicts(row, r.State) {
			if r, err = s.requestRefund(ctx, row); err != nil {
				return fmt.Errorf("payment: ask for refund %s: %w", row.RefundNo, err)
			}
		}
	}
	var err error
	switch r.State {
	case provider.Succeeded:
		err = s.refundSucceeded(ctx, name, r)
	case provider.Failed:
		err = s.refundFailed(ctx, r.RefundNo, name, "the provider reports that the refund failed")
	case provider.Processing: // nothing has happened yet
	}
	switch {
	case errors.Is(err, refund.ErrUnknown):
		s.raise(ctx, alarmUnknown, name+" refund "+r.RefundNo.String(), "")
	case errors.Is(err, refund.ErrReused):
		s.raise(ctx, alarmTransactionReused, name+" transaction "+r.Transaction, "")
	case errors.Is(err, refund.ErrMismatch):
		s.raise(ctx, alarmMismatch, "refund "+r.RefundNo.String(), "")
	}
	if err != nil {
		return fmt.Errorf("payment: settle refund %s: %w", r.RefundNo, err)
	}
	return nil
}

// refundSucceeded records that money was refunded, once however often it is
// reported.
func (s *Service) refundSucceeded(ctx context.Context, name string, r provider.RefundStatus) error {
	done, err := s.Refunds.Succeeded(ctx, name, r)
	if done {
		s.metrics.refunds.WithLabelValues(name, "succeeded").Inc()
		s.tallyRefund(ctx, r.RefundNo, "succeeded")
	}
	return err
}

// refundFailed ends a refund that the provider will never make.
func (s *Service) refundFailed(ctx context.Context, no ids.ID, name, why string) error {
	changed, err := s.Refunds.Failed(ctx, no, name, why, func(tx pgx.Tx, takenBack bool) error {
		if takenBack {
			why = "It had succeeded before, and the provider has taken it back. " + why
		}
		return alarmRefundFailed.Raise(ctx, tx, "refund "+no.String(), why)
	})
	if changed {
		s.metrics.refunds.WithLabelValues(name, "failed").Inc()
		s.tallyRefund(ctx, no, "failed")
	}
	return err
}

// chargedBack records what a provider reports of a chargeback.
func (s *Service) chargedBack(ctx context.Context, name string, c provider.Chargeback) error {
	if c.Merchant != s.named[name].Profile().Merchant {
		s.raise(ctx, alarmForeignMerchant, name, "")
		return errForeign
	}
	err := s.chargebacks.Record(ctx, name, c)
	switch {
	case errors.Is(err, chargeback.ErrUnknown):
		// A company reports every chargeback of the account, which the shop may use elsewhere too. One of ours that
		// was missed is in the statement.
		s.deps.Log.InfoContext(ctx, "chargeback of no payment of ours", "provider", name, "chargeback", c.No, "capture", c.Capture)
		return nil
	case errors.Is(err, chargeback.ErrMismatch):
		s.raise(ctx, alarmMismatch, "chargeback "+c.No, "")
	}
	return err
}

// reopen records that a bank gave money back, with an alarm about each refund that is owed
// again because of that.
func (s *Service) reopen(ctx context.Context, name, capture string, no ids.ID, record func(tx pgx.Tx) error) error {
	return s.Refunds.Reopen(ctx, name, capture, no, record, func(tx pgx.Tx, refund ids.ID) error {
		return alarmRefundFailed.Raise(ctx, tx, "refund "+refund.String(), "It had ended by a chargeback, whose money the bank has given back.")
	})
}

// refundRequested follows the commit of a refund that was asked for.
func (s *Service) refundRequested(r refund.AdminRefund) {
	s.metrics.refunds.WithLabelValues(r.Provider, "requested").Inc()
	s.wakeRefunds()
}

// Forget removes what a user wrote about refunds, in the transaction that erases the
// account. What operators wrote stays with the books.
func (s *Service) Forget(ctx context.Context, tx pgx.Tx, user int64) error {
	if err := s.q.WithTx(tx).ForgetNotes(ctx, paymentdb.ForgetNotesParams{Bucket: ids.Bucket(user), UserID: user}); err != nil {
		return fmt.Errorf("payment: forget notes: %w", err)
	}
	return nil
}
