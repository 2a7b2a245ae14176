package payment

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// failedRefund is an order whose refund the bank failed.
func (s *bundle) failedRefund(body string) (no ids.ID, refundNo string) {
	s.t.Helper()
	no, _ = s.paidFor(100, sandbox.RefundFails)
	refundNo = s.askBack(no, body, "requested")
	s.refundsDone(no)
	return no, refundNo
}

func aFailedRefundIsRetried(t *testing.T, s *bundle) {
	t.Helper()
	no, refundNo := s.failedRefund(`{"reason":"damaged"}`)
	s.orderIs(no, orderevent.StatusRefundFailed)
	s.finds(checkReturned, 1)
	s.finds(checkMoney, 0)
	s.askBack(no, `{"reason":"again"}`, "order-not-refundable")
	s.exec(`UPDATE sandbox.payments SET behaviour = 'normal' WHERE payment_no = (SELECT replace(payment_no::text, '-', '') FROM payments.payments WHERE order_no = $1)`, no)
	next := s.act(firstOperator, refundNo, "retry", "", "requested").Text("refund_no")
	require.Equal(t, "the retry has another number", next != refundNo, true)
	s.orderIs(no, orderevent.StatusRefunding)
	s.act(firstOperator, refundNo, "retry", "", "refund-not-waiting")
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	want := fmt.Sprintf("refunding by operator %d, refund_failed by provider sandbox, refunding by operator %d, refunded by provider sandbox", firstOperator, firstOperator)
	require.Equal(t, "history", s.story(no), want)
	for subject, want := range map[string]int{orderevent.SubjectRefunding: 2, orderevent.SubjectRefunded: 1, orderevent.SubjectRefundFailed: 1, paymentevent.SubjectRefunded: 1, paymentevent.SubjectRefundFailed: 1} {
		require.Equal(t, "events", s.events(subject, no), want)
	}
	// The bank makes the replaced refund after all: an operator has to know.
	err := s.settleRefund(t.Context(), "sandbox", s.succeededAt(refundNo, "late"), told)
	require.ErrorIs(t, err, provider.ErrReused)
	require.Equal(t, "alarms", s.alarms("payment-transaction-reused", "sandbox transaction late"), 1)
	s.booksAreRight()
}

// succeededAt is the bank's report that it made a refund.
func (s *bundle) succeededAt(refundNo, txn string) provider.RefundStatus {
	s.t.Helper()
	no, err := ids.Parse(refundNo)
	require.NoError(s.t, err)
	return provider.RefundStatus{
		State: provider.Succeeded, Merchant: merchantNo, RefundNo: no, PaymentNo: read[ids.ID](s, `SELECT payment_no FROM payments.refunds WHERE refund_no = $1`, no),
		Transaction: txn, Amount: read[int64](s, `SELECT amount FROM payments.refunds WHERE refund_no = $1`, no), Currency: "CNY", At: time.Now(),
	}
}

func aFailedRefundIsSettledByHand(t *testing.T, s *bundle) {
	t.Helper()
	no, refundNo := s.failedRefund(`{"reason":"damaged"}`)
	for _, blank := range []string{"", "  "} {
		s.act(firstOperator, refundNo, "settle-by-hand", `{"receipt":"`+blank+`"}`, "invalid")
	}
	s.act(firstOperator, refundNo, "settle-by-hand", `{"receipt":"ICBC 42"}`, "settled_by_hand")
	s.act(firstOperator, refundNo, "settle-by-hand", `{"receipt":"ICBC 43"}`, "refund-not-waiting")
	s.act(firstOperator, refundNo, "retry", "", "refund-not-waiting")
	s.orderIs(no, orderevent.StatusRefunded)
	require.Equal(t, "the ledger", read[string](s, `SELECT provider || ' ' || amount FROM payments.ledger WHERE order_no = $1 AND kind = 'refund'`, no), "by-hand 100")
	require.Equal(t, "events, and those about the whole", [...]int{s.events(paymentevent.SubjectRefunded, no), s.wholeEvents(no)}, [...]int{1, 1})
	// An automatic refund is settled by hand, or retried, in the same way.
	late, _ := s.late(sandbox.RefundFails)
	s.refundsDone(late)
	s.act(firstOperator, read[ids.ID](s, `SELECT refund_no FROM payments.refunds WHERE order_no = $1`, late).String(), "settle-by-hand", `{"receipt":"cash"}`, "settled_by_hand")
	s.orderIs(late, orderevent.StatusClosed)
	late, _ = s.late(sandbox.RefundFails)
	s.refundsDone(late)
	s.exec(`UPDATE sandbox.payments SET behaviour = 'normal'`)
	s.act(firstOperator, read[ids.ID](s, `SELECT refund_no FROM payments.refunds WHERE order_no = $1`, late).String(), "retry", "", "requested")
	s.refundsDone(late)
	s.booksAreRight()
	// And one that the bank made after it had failed it needs no operator.
	no, refundNo = s.failedRefund(`{"reason":"damaged"}`)
	s.exec(`UPDATE sandbox.refunds SET status = 'succeeded' WHERE refund_no = $1`, refundNo)
	require.NoError(t, s.settleRefund(t.Context(), "sandbox", s.succeededAt(refundNo, "after all"), told))
	s.orderIs(no, orderevent.StatusRefunded)
	s.booksAreRight()
}

func aFailedPartKeepsTheOrderFromBeingRefunded(_ *testing.T, s *bundle) {
	no, part := s.failedRefund(`{"amount":{"amount":40,"currency":"CNY"},"reason":"scratched"}`)
	s.orderIs(no, orderevent.StatusPaid)
	s.exec(`UPDATE sandbox.payments SET behaviour = 'normal'`)
	s.askBack(no, `{"reason":"the rest"}`, "requested")
	s.orderIs(no, orderevent.StatusRefundFailed) // through refunding
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefundFailed)
	s.act(secondOperator, part, "settle-by-hand", `{"receipt":"cash 7"}`, "settled_by_hand")
	s.orderIs(no, orderevent.StatusRefunded)
	s.booksAreRight()
}

func theWorklistIsByStatus(t *testing.T, s *bundle) {
	t.Helper()
	no, _ := s.paidFor(approvalAbove+1, sandbox.Normal)
	refundNo := s.askBack(no, `{"reason":"again"}`, "awaiting_approval")
	s.act(secondOperator, refundNo, "reject", "", "rejected")
	s.askBack(no, `{"reason":"again"}`, "awaiting_approval")
	rows, _ := s.staff(firstOperator, http.MethodGet, "refunds?status=rejected&limit=1", "").Doc["data"].([]any)
	if len(rows) != 1 || rows[0].(map[string]any)["refund_no"] != refundNo {
		t.Errorf("the newest rejected refund is %v, want %s", rows, refundNo)
	}
	s.says(s.staff(firstOperator, http.MethodPost, "refunds/"+ids.New().String()+"/retry", ""), "not-found")
}
