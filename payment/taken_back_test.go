package payment

import (
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/watch/tally"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestRefundsTakenBack(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{}),
		aRefundThatIsTakenBackIsOwedAgain, aPartThatIsTakenBackIsSettledByHand,
		theStatementShowsWhatWasTakenBack, aFailureAsTheRefundSucceedsIsNotLost,
		aFailureAskedForAsTheRefundSucceeds,
	)
}

// bounce has the bank take back an order's refund that it has made.
func (s *bundle) bounce(no ids.ID) {
	s.t.Helper()
	s.exec(`UPDATE sandbox.refunds SET bounces_ms = 0, ready_at = now() WHERE status = 'succeeded'
		AND refund_no IN (SELECT replace(refund_no::text, '-', '') FROM payments.refunds WHERE order_no = $1)`, no)
}

// oneIsOwed requires that the books name one refund as failed, and are right otherwise.
func (s *bundle) oneIsOwed() {
	s.t.Helper()
	s.finds(checkMoney, 0)
	if d := s.finds(checkReturned, 1)[0].Detail; !strings.Contains(d, "failed") {
		s.t.Errorf("I5: %s", d)
	}
}

// The order stays refunded, because its units are sold again, and says that money is
// owed. Reports of what was true before change nothing, in whatever order they arrive.
func aRefundThatIsTakenBackIsOwedAgain(t *testing.T, s *bundle) {
	t.Helper()
	before := s.counted("refunded")
	s.exec(`UPDATE inventory.stock SET total = total + 1, backup = backup + 1`)
	no, user := s.one(100)
	_, url := s.startPayment(no, user)
	s.closeBehindTheBank(no, user)
	s.settlesAt(url, no)
	refundNo := s.askBack(no, `{"reason":"damaged"}`, "requested")
	s.refundsDone(no)
	stock := s.stockIs()
	succeeded := s.succeededAt(refundNo, read[string](s, `SELECT provider_txn FROM payments.ledger WHERE order_no = $1 AND kind = 'refund'`, no))
	failed := succeeded
	failed.State = provider.Failed
	require.NoError(t, s.settleRefund(t.Context(), "sandbox", failed, told))
	require.Equal(t, "after the report of an earlier failure, the refund", s.refundOf(no), "operator succeeded")
	s.bounce(no)
	s.until("the refund is taken back", func() bool { return s.refundOf(no) == "operator failed" })
	for _, again := range []provider.RefundStatus{failed, succeeded, failed} {
		require.NoError(t, s.settleRefund(t.Context(), "sandbox", again, told))
	}
	require.Equal(t, "alarms and reversals", [...]int{s.alarms("refund-failed", "refund "+refundNo), s.ledger(no, "refund_reversal")}, [...]int{1, 1})
	is := func(what, want string) {
		t.Helper()
		require.Equal(t, what, read[string](s, `SELECT status || ' ' || reason FROM orders.orders WHERE order_no = $1`, no), want)
		require.Equal(t, "stock", s.stockIs(), stock)
	}
	is("the order", "refunded taken-back")
	require.Equal(t, "events", s.events(orderevent.SubjectAmended, no), 1)
	s.oneIsOwed()
	s.act(firstOperator, refundNo, "retry", "", "requested")
	is("while the retry is under way the order", "refunded taken-back")
	s.refundsDone(no)
	is("after the retry the order", "refunded backup")
	require.Equal(t, "events about the whole", s.wholeEvents(no), 1)
	require.Equal(t, "refunded orders in the funnel", s.counted("refunded")-before, 1)
	s.booksAreRight()
}

// counted is how many orders of the item the funnel counts with a code.
func (s *bundle) counted(code string) int64 {
	s.t.Helper()
	require.NoError(s.t, s.funnel.Fold(s.t.Context()))
	all, err := tally.Totals(s.t.Context(), s.db, s.item)
	require.NoError(s.t, err)
	return all[s.item]["orders"][code]
}

func aPartThatIsTakenBackIsSettledByHand(_ *testing.T, s *bundle) {
	no, _ := s.paidFor(100, sandbox.Normal)
	refundNo := s.askBack(no, `{"amount":{"amount":30,"currency":"CNY"},"reason":"scratched"}`, "requested")
	s.refundsDone(no)
	s.bounce(no)
	s.until("the refund is taken back", func() bool { return s.refundOf(no) == "operator failed" })
	s.orderIs(no, orderevent.StatusPaid)
	s.oneIsOwed()
	s.act(firstOperator, refundNo, "settle-by-hand", `{"receipt":"ICBC 7"}`, "settled_by_hand")
	s.booksAreRight()
}

// The bank makes a refund on one day and takes it back on the next.
func theStatementShowsWhatWasTakenBack(t *testing.T, s *bundle) {
	t.Helper()
	pgtest.Work(t, s.statements.Workers()[0].Run)
	yesterday := time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour)
	first, second := yesterday.AddDate(0, 0, -1).Format(time.DateOnly), yesterday.Format(time.DateOnly)
	heard, _ := s.paidFor(100, sandbox.Normal)
	lost, _ := s.paidFor(100, sandbox.Normal)
	for _, no := range []ids.ID{heard, lost} {
		s.askBack(no, `{"reason":"damaged"}`, "requested")
		s.refundsDone(no)
	}
	s.bounce(heard)
	s.until("the refund is taken back", func() bool { return s.refundOf(heard) == "operator failed" })
	s.door.lose.Store(true)
	s.bounce(lost)
	s.until("the bank has taken both back", func() bool {
		return read[int](s, `SELECT count(*) FROM sandbox.refunds r JOIN payments.refunds o ON replace(o.refund_no::text, '-', '') = r.refund_no
			WHERE r.bounced_at IS NOT NULL AND o.order_no = ANY($1)`, []ids.ID{heard, lost}) == 2
	})
	s.exec(`UPDATE sandbox.payments SET captured_at = $1`, yesterday.AddDate(0, 0, -1))
	s.exec(`UPDATE sandbox.refunds SET updated_at = $1, bounced_at = CASE WHEN bounced_at IS NOT NULL THEN $2::timestamptz END`, yesterday.AddDate(0, 0, -1), yesterday)
	txn := read[string](s, `SELECT provider_txn FROM payments.ledger WHERE order_no = $1 AND kind = 'refund'`, lost)
	s.differ(s.reconcile(first, `{"provider":"sandbox"}`), map[string]string{})
	s.differ(s.reconcile(second, `{"provider":"sandbox"}`), map[string]string{txn: "different refund settle 0 100"})
	s.differ(s.reconcile(second, `{"provider":"sandbox","apply":true}`), map[string]string{})
	require.Equal(t, "the refund", s.refundOf(lost), "operator failed")
	require.Equal(t, "reversals", s.ledger(lost, "refund_reversal"), 1)
	s.differ(s.reconcile(first, `{"provider":"sandbox"}`), map[string]string{})
	s.finds(checkMoney, 0)
}

// The report of the failure is read while that of the success waits for the order.
func aFailureAsTheRefundSucceedsIsNotLost(t *testing.T, s *bundle) {
	t.Helper()
	no, _ := s.paidFor(100, sandbox.Normal)
	made := s.succeededAt(s.askBack(no, `{"amount":{"amount":30,"currency":"CNY"},"reason":"scratched"}`, "requested"), "made and taken back")
	succeeded, failed := s.atOnce(no, made, func() error { return s.refundFailed(t.Context(), made.RefundNo, "sandbox", "taken back") })
	if succeeded != nil || failed == nil || s.refundOf(no) != "operator succeeded" {
		t.Errorf("the refund is %s, %v, and the failure is answered with %v", s.refundOf(no), succeeded, failed)
	}
}

// The bank has taken the refund back when it is asked, while its report of the success
// waits for the order.
func aFailureAskedForAsTheRefundSucceeds(t *testing.T, s *bundle) {
	t.Helper()
	no, _ := s.paidFor(100, sandbox.RefundFails)
	s.door.lose.Store(true)
	defer s.door.lose.Store(false)
	made := s.succeededAt(s.askBack(no, `{"amount":{"amount":30,"currency":"CNY"},"reason":"scratched"}`, "requested"), "made and taken back too")
	row, err := s.q.Refund(t.Context(), paymentdb.RefundParams{RefundNo: made.RefundNo, Bucket: made.RefundNo.Bucket()})
	require.NoError(t, err)
	s.until("the bank says failed", func() bool {
		st, err := s.requestRefund(t.Context(), row)
		return err == nil && st.State == provider.Failed
	})
	succeeded, failed := s.atOnce(no, made, func() error { return s.askRefund(t.Context(), row) })
	if succeeded != nil || failed != nil || s.refundOf(no) != "operator failed" || s.ledger(no, "refund_reversal") != 1 {
		t.Errorf("the refund is %s, %v, and the failure is answered with %v", s.refundOf(no), succeeded, failed)
	}
}

// atOnce lets a report that a refund succeeded and then fail wait for the order.
func (s *bundle) atOnce(no ids.ID, made provider.RefundStatus, fail func() error) (succeeded, failed error) {
	s.t.Helper()
	var reports sync.WaitGroup
	release := pgtest.Locked(s.t, s.db, `SELECT FROM orders.orders WHERE order_no = $1 FOR UPDATE`, no)
	reports.Go(func() { succeeded = s.refundSucceeded(s.t.Context(), "sandbox", made) })
	s.waiting(1)
	reports.Go(func() { failed = fail() })
	s.waiting(2)
	release()
	reports.Wait()
	return succeeded, failed
}
