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
	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
)

// Succeeded records that a provider made a refund: ledger, refund, order and event in
// one transaction, once however often it is reported; done is false if it was known.
// It fails with ErrUnknown, ErrMismatch or ErrReused if the report contradicts the
// books.
func (s *Service) Succeeded(ctx context.Context, name string, r provider.RefundStatus) (done bool, err error) {
	row, err := s.row(ctx, s.q, r.RefundNo, name)
	if err != nil {
		return false, err
	}
	if r.Amount != row.Amount || r.Currency != row.Currency || r.PaymentNo != row.PaymentNo {
		return false, ErrMismatch
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
			err = ErrReused
		}
		return err
	}, func(tx pgx.Tx, whole bool) error { return announce(ctx, tx, row, whole) })
	return done && err == nil, err
}

// record writes a ledger row of a refund and returns false if it is there already.
func (s *Service) record(ctx context.Context, q *paymentdb.Queries, provider, kind, txn string, row paymentdb.PaymentsRefund) (bool, error) {
	n, err := q.RecordMoney(ctx, paymentdb.RecordMoneyParams{
		Provider: provider, Kind: kind, ProviderTxn: txn, PaymentNo: row.PaymentNo, OrderNo: row.OrderNo,
		RefundNo: pgtype.UUID{Bytes: row.RefundNo, Valid: true}, Amount: row.Amount, Currency: row.Currency,
	})
	if err != nil || n > 0 {
		return n > 0, err
	}
	known, err := q.Movement(ctx, paymentdb.MovementParams{Provider: provider, Kind: kind, ProviderTxn: txn})
	if err == nil && known.PaymentNo != row.PaymentNo {
		err = ErrReused // a correct provider never gives two movements one number
	}
	return false, err
}

func announce(ctx context.Context, tx pgx.Tx, row paymentdb.PaymentsRefund, whole bool) error {
	_, err := outbox.Append(ctx, tx, paymentevent.SubjectRefunded, paymentevent.Refunded{
		RefundNo: row.RefundNo, OrderNo: row.OrderNo, UserID: row.UserID, Amount: row.Amount, Currency: row.Currency, Reason: row.Reason, Whole: whole,
	})
	return err
}

// Failed ends a refund that the provider will never make; changed is false if it had
// ended. The money stays with us, and the checks report it (I5), until an operator
// retries the refund or pays it back by hand. One that had succeeded was taken back: the
// ledger gets a reversal, and the refund is failed like any other. raise runs in the
// transaction of either; takenBack says which it is.
func (s *Service) Failed(ctx context.Context, no ids.ID, name, why string, raise func(tx pgx.Tx, takenBack bool) error) (changed bool, err error) {
	row, err := s.row(ctx, s.q, no, name)
	if err != nil {
		return false, err
	}
	takenBack := row.Status == succeeded
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
		// No worker retries a failed refund; only the operator who gets this alarm
		// will act on it, so the two are committed together.
		return raise(c.tx, takenBack)
	}, nothing)
	return changed && err == nil, err
}

// Reopen runs record, which gives money of a chargeback back to the shop, and in the same
// transaction puts back to failed the refunds of that capture that ended by it. It holds the
// order's lock, so that no refund ends by the chargeback at the same moment; raise runs for
// each.
func (s *Service) Reopen(ctx context.Context, name, capture string, no ids.ID, record func(tx pgx.Tx) error, raise func(tx pgx.Tx, refund ids.ID) error) error {
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
		for _, refund := range owed {
			err = cmp.Or(err, raise(c.tx, refund))
		}
		return err
	}, nothing)
}

// Contradicts reports whether a provider's report differs from how a refund ended before.
// Reports overtake each other, so that only an answer to a question tells the latest.
func Contradicts(row paymentdb.PaymentsRefund, told provider.RefundState) bool {
	return row.Status == succeeded && told == provider.Failed || row.Status == failed && told == provider.Succeeded
}

// row is the refund of this number at a provider, or ErrUnknown.
func (s *Service) row(ctx context.Context, q *paymentdb.Queries, no ids.ID, name string) (paymentdb.PaymentsRefund, error) {
	row, err := q.Refund(ctx, paymentdb.RefundParams{RefundNo: no, Bucket: no.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Provider != name {
		return row, ErrUnknown
	}
	return row, err
}
