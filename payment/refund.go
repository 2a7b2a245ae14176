package payment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
	"stampede/payment/refund"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
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

// reasons are why money goes back, in words that companies show to their shoppers: in Chinese,
// as those of the companies are, and within the 80 bytes that the shortest of them takes.
var reasons = map[string]string{
	outcomeLate: "订单已关闭", outcomeDuplicate: "重复付款", outcomeMismatch: "付款金额不符",
	refund.ByShopper: "买家申请退款", refund.ByOperator: "商家退款", refund.ByDispute: "售后退款",
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
		Reason: reasons[r.Reason], Code: r.Reason, NotifyURL: bk.callbackURL(refundNotifyPath, r.Provider),
	})
}

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
	app.Kick(bk.refundNow)
}

// Forget removes what a user wrote about refunds, in the transaction that erases the
// account. What operators wrote stays with the books.
func (s *Service) Forget(ctx context.Context, tx pgx.Tx, user int64) error {
	if err := s.q.WithTx(tx).ForgetNotes(ctx, paymentdb.ForgetNotesParams{Bucket: ids.Bucket(user), UserID: user}); err != nil {
		return fmt.Errorf("payment: forget notes: %w", err)
	}
	return nil
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
