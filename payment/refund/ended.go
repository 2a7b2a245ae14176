package refund

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"stampede/payment/internal/paymentdb"
	"stampede/payment/paymentevent"
	"stampede/payment/provider"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
	"stampede/platform/watch/alarm"
)

var alarmFailed = alarm.Define("refund-failed", alarm.Critical,
	fault.T("The provider refuses a refund. The shopper's money is still with the shop.",
		"支付渠道拒绝退款，顾客的钱仍在商家账户。"),
	fault.T("Retry it, or pay it back in another way and settle it by hand with the receipt's number; if the shop lost a chargeback of the payment, end the refund by it (GET /api/v1/admin/refunds?status=failed).",
		"请重试，或以其他方式退款后凭回单号登记为线下退款；若该笔支付的拒付已败诉，请将退款标记为由拒付抵偿（GET /api/v1/admin/refunds?status=failed）。"))

// Succeeded records that a provider made a refund: ledger, refund, order and event in
// one transaction, once however often it is reported; done is false if it was known.
// It fails with provider.ErrUnknown, provider.ErrMismatch or provider.ErrReused if the report contradicts the
// books.
func (s *Service) Succeeded(ctx context.Context, name string, r provider.RefundStatus) (done bool, err error) {
	row, err := s.row(ctx, s.q, r.RefundNo, name)
	if err != nil {
		return false, err
	}
	if r.Amount != row.Amount || r.Currency != row.Currency || r.PaymentNo != row.PaymentNo {
		return false, provider.ErrMismatch
	}
	// A provider without numbers for refunds makes each of ours once, so ours names the movement.
	txn := cmp.Or(r.Transaction, r.RefundNo.String())
	err = s.move(ctx, row.OrderNo, "provider "+name, func(_ pgx.Tx, q *paymentdb.Queries) (bool, error) {
		done, err = s.record(ctx, q, name, kindRefund, txn, row)
		return done, err
	}, func(c *change) error {
		n, err := c.q.SucceedRefund(ctx, paymentdb.SucceedRefundParams{RefundNo: row.RefundNo, Bucket: row.Bucket})
		if err == nil && n == 0 {
			// The money went back before: by another transaction, by hand, or by the
			// refund that replaced this one. It must not be recorded as one refund; an
			// operator has to resolve it.
			err = provider.ErrReused
		}
		return err
	}, func(tx pgx.Tx, whole bool) error { return announce(ctx, tx, row, whole) })
	return done && err == nil, err
}

// record writes a ledger row of a refund and returns false if it is there already.
func (s *Service) record(ctx context.Context, q *paymentdb.Queries, name, kind, txn string, row paymentdb.PaymentsRefund) (bool, error) {
	n, err := q.RecordMoney(ctx, paymentdb.RecordMoneyParams{
		Provider: name, Kind: kind, ProviderTxn: txn, PaymentNo: row.PaymentNo, OrderNo: row.OrderNo,
		RefundNo: pgtype.UUID{Bytes: row.RefundNo, Valid: true}, Amount: row.Amount, Currency: row.Currency,
	})
	if err != nil || n > 0 {
		return n > 0, err
	}
	known, err := q.Movement(ctx, paymentdb.MovementParams{Provider: name, Kind: kind, ProviderTxn: txn})
	if err == nil && known.PaymentNo != row.PaymentNo {
		err = provider.ErrReused // a correct provider never gives two movements one number
	}
	return false, err
}

// told is a refund as events name it.
func told(r *paymentdb.PaymentsRefund) paymentevent.Refund {
	return paymentevent.Refund{RefundNo: r.RefundNo, OrderNo: r.OrderNo, UserID: r.UserID, Amount: r.Amount, Currency: r.Currency, Reason: r.Reason}
}

func announce(ctx context.Context, tx pgx.Tx, row paymentdb.PaymentsRefund, whole bool) error {
	_, err := outbox.Append(ctx, tx, paymentevent.SubjectRefunded, paymentevent.Refunded{Refund: told(&row), Whole: whole})
	return err
}

// announceFailure raises the alarm about a failed refund and publishes it. No worker
// retries one; only an operator who hears of it acts, so both are committed with it.
func announceFailure(ctx context.Context, tx pgx.Tx, row paymentdb.PaymentsRefund, detail string) error {
	if err := alarmFailed.Raise(ctx, tx, subject(row.RefundNo), detail); err != nil {
		return err
	}
	_, err := outbox.Append(ctx, tx, paymentevent.SubjectRefundFailed, paymentevent.RefundFailed{Refund: told(&row), Detail: detail})
	return err
}

// Failed ends a refund that the provider will never make; changed is false if it had
// ended. The money stays with us, and the checks report it (I5), until an operator
// retries the refund or pays it back by hand. One that had succeeded was taken back: the
// ledger gets a reversal, and the refund is failed like any other.
func (s *Service) Failed(ctx context.Context, no ids.ID, name, why string) (changed bool, err error) {
	row, err := s.row(ctx, s.q, no, name)
	if err != nil {
		return false, err
	}
	takenBack, detail := row.Status == succeeded, why
	if takenBack {
		detail = "It had succeeded before, and the provider has taken it back. " + why
	}
	err = s.move(ctx, row.OrderNo, "provider "+name, func(_ pgx.Tx, q *paymentdb.Queries) (bool, error) {
		if !takenBack {
			return true, nil
		}
		of, err := q.RefundThatStands(ctx, paymentdb.RefundThatStandsParams{OrderNo: row.OrderNo, RefundNo: pgtype.UUID{Bytes: no, Valid: true}, Provider: name})
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil // taken back before
		}
		if err != nil {
			return false, err
		}
		return s.record(ctx, q, name, kindReversal, of.ProviderTxn, row)
	}, func(c *change) (err error) {
		var n int64
		if takenBack {
			n, err = c.q.ReverseRefund(ctx, paymentdb.ReverseRefundParams{LastError: why, RefundNo: no, Bucket: no.Bucket()})
			if err == nil && n == 0 {
				err = ErrMeanwhile
			}
		} else {
			n, err = c.q.FailRefund(ctx, paymentdb.FailRefundParams{LastError: why, RefundNo: no, Bucket: no.Bucket()})
			if err == nil && n == 0 {
				// Acknowledged, it would not be repeated, although the provider may have taken back what it just made.
				if row, err = s.row(ctx, c.q, no, name); err == nil && row.Status == succeeded {
					err = ErrMeanwhile
				}
			}
		}
		if changed = n > 0; err != nil || !changed {
			return err
		}
		return announceFailure(ctx, c.tx, row, detail)
	}, nothing)
	return changed && err == nil, err
}

// Reopen runs record, which gives money of a chargeback back to the shop, and in the same
// transaction puts back to failed, with an alarm, the refunds of that capture that ended by
// it. It holds the order's lock, so that no refund ends by the chargeback at the same moment.
func (s *Service) Reopen(ctx context.Context, name, capture string, no ids.ID, record func(tx pgx.Tx) error) error {
	return s.move(ctx, no, "provider "+name, func(tx pgx.Tx, _ *paymentdb.Queries) (bool, error) {
		return true, record(tx)
	}, func(c *change) error {
		back, err := c.q.ChargedBack(ctx, paymentdb.ChargedBackParams{Provider: name, CaptureTxn: capture, Bucket: no.Bucket()})
		if err != nil || back.Lost >= 0 {
			return err
		}
		owed, err := c.q.ReopenRefunds(ctx, paymentdb.ReopenRefundsParams{
			LastError: "the chargeback that it ended by was won after all", OrderNo: no, Bucket: no.Bucket(), Provider: name, CaptureTxn: capture, Beyond: -back.Lost,
		})
		for _, row := range owed {
			err = cmp.Or(err, announceFailure(ctx, c.tx, row, "It had ended by a chargeback, whose money the bank has given back."))
		}
		return err
	}, nothing)
}

// Contradicts reports whether a provider's report differs from how a refund ended before.
// Reports overtake each other, so that only an answer to a question tells the latest.
func Contradicts(row paymentdb.PaymentsRefund, told provider.RefundState) bool {
	return row.Status == succeeded && told == provider.Failed || row.Status == failed && told == provider.Succeeded
}

// row is the refund of this number at a provider, or provider.ErrUnknown.
func (s *Service) row(ctx context.Context, q *paymentdb.Queries, no ids.ID, name string) (paymentdb.PaymentsRefund, error) {
	row, err := q.Refund(ctx, paymentdb.RefundParams{RefundNo: no, Bucket: no.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Provider != name {
		return row, provider.ErrUnknown
	}
	return row, err
}
