package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/payment/internal/paymentdb"
	"stampede/payment/paymentevent"
	"stampede/payment/provider"
	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
)

// settleRefund applies what a provider reports of a refund, once.
func (s *Service) settleRefund(ctx context.Context, name string, r provider.RefundStatus) error {
	if r.Merchant != s.named[name].Profile().Merchant {
		s.raise(ctx, alarmForeignMerchant, name, "")
		return errForeign
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
	case errors.Is(err, errUnknown):
		s.raise(ctx, alarmUnknown, name+" refund "+r.RefundNo.String(), "")
	case errors.Is(err, errReused):
		s.raise(ctx, alarmTransactionReused, name+" transaction "+r.Transaction, "")
	case errors.Is(err, errMismatch):
		s.raise(ctx, alarmMismatch, "refund "+r.RefundNo.String(), "")
	}
	if err != nil {
		return fmt.Errorf("payment: settle refund %s: %w", r.RefundNo, err)
	}
	return nil
}

// refundSucceeded records that money was refunded: ledger, refund and event in
// one transaction, once however often it is reported.
func (s *Service) refundSucceeded(ctx context.Context, name string, r provider.RefundStatus) error {
	done := false
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		done = false // InTx may run this again
		q := s.q.WithTx(tx)
		row, err := s.refundRow(ctx, q, r.RefundNo, name)
		if err != nil {
			return err
		}
		if r.Amount != row.Amount || r.Currency != row.Currency || r.PaymentNo != row.PaymentNo {
			return errMismatch
		}
		// A provider without numbers for refunds makes each of ours once, so ours names the movement.
		txn := cmp.Or(r.Transaction, r.RefundNo.String())
		n, err := q.RecordMoney(ctx, paymentdb.RecordMoneyParams{
			Provider: name, Kind: kindRefund, ProviderTxn: txn, PaymentNo: row.PaymentNo, OrderNo: row.OrderNo,
			RefundNo: someID(row.RefundNo), Amount: r.Amount, Currency: r.Currency,
		})
		if err != nil {
			return err
		}
		if n == 0 { // recorded before
			_, err := s.moved(ctx, q, name, kindRefund, txn, r.PaymentNo)
			return err
		}
		n, err = q.SucceedRefund(ctx, paymentdb.SucceedRefundParams{RefundNo: row.RefundNo, Bucket: row.Bucket})
		if err != nil {
			return err
		}
		if n == 0 {
			// The same refund under a second transaction: the provider paid twice. It
			// must not be recorded as one refund; an operator has to resolve it.
			return errReused
		}
		done = true
		_, err = outbox.Append(ctx, tx, paymentevent.SubjectRefunded, paymentevent.Refunded{
			RefundNo: row.RefundNo, OrderNo: row.OrderNo, UserID: row.UserID, Amount: row.Amount, Currency: row.Currency, Reason: row.Reason,
		})
		return err
	})
	if err == nil && done {
		s.metrics.refunds.WithLabelValues(name, "succeeded").Inc()
		s.deps.Outbox.Wake()
	}
	return err
}

// refundFailed ends a refund that the provider will never make. The money stays
// with us and the checks report it (I5) until an operator has refunded it
// another way.
func (s *Service) refundFailed(ctx context.Context, no ids.ID, name, why string) error {
	var n int64
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		q := s.q.WithTx(tx)
		if _, err := s.refundRow(ctx, q, no, name); err != nil {
			return err
		}
		var err error
		n, err = q.FailRefund(ctx, paymentdb.FailRefundParams{LastError: why, RefundNo: no, Bucket: no.Bucket()})
		if err != nil || n == 0 {
			return err
		}
		// No worker retries a failed refund; only the operator who gets this alarm
		// will act on it, so the two are committed together.
		return alarmRefundFailed.Raise(ctx, tx, "refund "+no.String(), why)
	})
	if err == nil && n > 0 {
		s.metrics.refunds.WithLabelValues(name, "failed").Inc()
	}
	return err
}

func (s *Service) refundRow(ctx context.Context, q *paymentdb.Queries, no ids.ID, name string) (paymentdb.PaymentsRefund, error) {
	row, err := q.Refund(ctx, paymentdb.RefundParams{RefundNo: no, Bucket: no.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Provider != name {
		return row, errUnknown
	}
	return row, err
}
