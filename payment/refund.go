package payment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
	"stampede/payment/refund"
)

// refundDue requests the refunds that are due and returns how many. A repeated
// request for a refund under way returns its state, so one call serves to start
// it, to repeat a lost request and to learn of an outcome whose callback never
// arrived.
func (pl *poller) refundDue(ctx context.Context) (int, error) {
	claiming, cancel := context.WithTimeout(ctx, bookTimeout)
	defer cancel()
	due, err := pl.q.ClaimRefunds(claiming, paymentdb.ClaimRefundsParams{Claim: claimFor, AtMost: claimAtMost})
	if err != nil {
		return 0, fmt.Errorf("payment: claim refunds: %w", err)
	}
	each(ctx, due, pl.refundOne)
	return len(due), nil
}

// refundOne makes one attempt at a refund. A failure is recorded on the row, so
// that the other refunds do not wait for it.
func (pl *poller) refundOne(ctx context.Context, r paymentdb.PaymentsRefund) {
	err := pl.askRefund(ctx, r)
	if ctx.Err() != nil {
		return // the process is stopping, or Postgres hangs; the refund is due again when its claim ends
	}
	outcome := ""
	if err != nil {
		outcome = err.Error()
		pl.deps.Log.WarnContext(ctx, "refund not done, retrying later", "provider", r.Provider, "refund_no", r.RefundNo,
			"attempts", r.Attempts, "error", err)
	}
	if err := pl.q.NoteRefundAttempt(ctx, paymentdb.NoteRefundAttemptParams{
		LastError: outcome, RefundNo: r.RefundNo, Bucket: r.Bucket, Attempts: r.Attempts,
		BaseMs: pl.cfg.RefundBackoff.Milliseconds(), MostMs: pl.cfg.RefundAtMost.Milliseconds(),
	}); err != nil {
		pl.deps.Log.WarnContext(ctx, "refund's attempt not recorded", "refund_no", r.RefundNo, "error", err)
	}
	if int(r.Attempts) < pl.cfg.RefundAlarmAfter {
		return
	}
	// The row is read again: this attempt may have ended it.
	if now, err := pl.q.Refund(ctx, paymentdb.RefundParams{RefundNo: r.RefundNo, Bucket: r.Bucket}); err == nil && now.Status == "requested" &&
		(now.LastError != "" || time.Since(now.CreatedAt) > providerTakes) {
		pl.raise(ctx, alarmRefundStuck, "refund "+r.RefundNo.String(), now.LastError)
	}
}

// askRefund requests a refund, or its state: the same number makes both the same
// request. A refusal is final once the next attempt repeats it: the first may be the
// answer while a request before it, whose own answer was lost, is carried out. Alipay
// then says that the trade is closed, and knows the refund some seconds later.
func (pl *poller) askRefund(ctx context.Context, r paymentdb.PaymentsRefund) error {
	if r.Provider == free { // an order that cost nothing; no provider knows it
		return pl.books.refundSucceeded(ctx, free, provider.RefundStatus{RefundNo: r.RefundNo, PaymentNo: r.PaymentNo, Amount: r.Amount, Currency: r.Currency})
	}
	st, err := pl.books.requestRefund(ctx, r)
	switch {
	case errors.Is(err, provider.ErrRefused) && strings.Contains(r.LastError, provider.ErrRefused.Error()):
		err = pl.books.refundFailed(ctx, r.RefundNo, r.Provider, err.Error())
	case err == nil:
		err = pl.books.settleRefund(ctx, r.Provider, st, asked)
	}
	if errors.Is(err, refund.ErrMeanwhile) { // the refund is no longer requested, so that no later round asks
		if st, err = pl.books.requestRefund(ctx, r); err == nil {
			err = pl.books.settleRefund(ctx, r.Provider, st, asked)
		}
	}
	return err
}

// requestRefund is the provider's answer to the request for a refund: its state.
func (bk *books) requestRefund(ctx context.Context, r paymentdb.PaymentsRefund) (none provider.RefundStatus, err error) {
	prov, err := bk.provider(ctx, r.Provider)
	if err != nil {
		return none, err
	}
	of, err := bk.q.CaptureToRefund(ctx, paymentdb.CaptureToRefundParams{PaymentNo: r.PaymentNo, Bucket: r.Bucket, Provider: r.Provider, CaptureTxn: r.CaptureTxn})
	if err != nil {
		return none, fmt.Errorf("payment: read the capture of refund %s: %w", r.RefundNo, err)
	}
	return prov.Refund(ctx, provider.Return{
		RefundNo: r.RefundNo, Payment: provider.Payment{No: r.PaymentNo, Ref: of.Handoff.Ref}, Transaction: r.CaptureTxn,
		Amount: r.Amount, Captured: of.Captured, Currency: r.Currency,
		Reason: r.Reason, NotifyURL: bk.callbackURL(refundNotifyPath, r.Provider),
	})
}
