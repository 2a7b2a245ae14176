package payment

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/payment/refund"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// A refund for an earlier dispute that was retried after the next one was opened is not
// taken for the refund that closes it.
func aRetryForAnEarlierDisputeClosesNoOther(t *testing.T, s *bundle) {
	no, user := s.paidFor(100, sandbox.RefundFails)
	open := func() string {
		return s.post(user, "/api/v1/orders/"+no.String()+"/disputes", `{"reason":"收到的鞋码不对"}`).Text("dispute_no")
	}
	end := func(dispute, refund string) string {
		return s.staff(firstOperator, http.MethodPost, "disputes/"+dispute+"/close", `{"reason":"退您一部分","refund":`+refund+`}`).Text("refund_no")
	}
	failed := end(open(), `{"amount":{"amount":40,"currency":"CNY"}}`)
	s.refundsDone(no)
	second := open()
	s.exec(`UPDATE sandbox.payments SET behaviour = 'normal'`)
	retried := s.act(firstOperator, failed, "retry", "", "requested").Text("refund_no")
	if got := end(second, `{"amount":{"amount":20,"currency":"CNY"}}`); got == "" || got == retried || got == failed {
		t.Errorf("the second dispute is closed by refund %q; the first had %s, retried as %s", got, failed, retried)
	}
	s.refundsDone(no)
	require.Equal(t, "went back", read[int](s, `SELECT sum(amount) FROM payments.ledger WHERE order_no = $1 AND kind = 'refund'`, no), 60)
	s.booksAreRight()
}

// The database is lost while a dispute is being closed with a refund: both happen or
// neither, and a second operator cannot close it otherwise.
func aRefundAndItsDisputeEndTogether(t *testing.T, s *bundle) {
	no, user := s.paidFor(100, sandbox.Normal)
	dispute := s.post(user, "/api/v1/orders/"+no.String()+"/disputes", `{"reason":"收到的鞋码不对"}`).Text("dispute_no")
	path := "disputes/" + dispute + "/close"
	release := pgtest.Locked(s.t, s.db, `LOCK TABLE orders.dispute_texts IN SHARE MODE`)
	first := make(chan answer)
	go func() {
		defer close(first)
		first <- s.staff(firstOperator, http.MethodPost, path, `{"reason":"退您一部分","refund":{"amount":{"amount":40,"currency":"CNY"}}}`)
	}()
	s.until("the closing waits to write its text, and ends", func() bool {
		return read[int](s, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	if a := <-first; a.Status == http.StatusOK {
		t.Errorf("without its connection: %v", a.Doc)
	}
	release()
	s.staff(secondOperator, http.MethodPost, path, `{"reason":"不退"}`)
	got := read[string](s, `SELECT d.Status || ' ' || d.outcome || ' ' || count(r.refund_no) FROM orders.disputes d
		LEFT JOIN payments.refunds r ON r.order_no = d.order_no WHERE d.order_no = $1 GROUP BY d.Status, d.outcome`, no)
	if got != "closed refund 1" && got != "closed no_refund 0" {
		t.Errorf("the dispute and the refunds are: %s", got)
	}
	s.refundsDone(no)
	s.booksAreRight()
}

// A dispute closes with one refund, also with all that is left after a part went back.
func disputesCloseWithOneRefund(t *testing.T, s *bundle) {
	no, user := s.paidFor(100, sandbox.Normal)
	open := func() string {
		t.Helper()
		a := s.post(user, "/api/v1/orders/"+no.String()+"/disputes", `{"reason":"收到的鞋码不对"}`)
		return a.Want(t, "open", http.StatusCreated, "").Text("dispute_no")
	}
	refunds := func() int { return read[int](s, `SELECT count(*) FROM payments.refunds WHERE order_no = $1`, no) }

	first := open()
	for range 2 { // sent twice, it is one
		a := s.staff(firstOperator, http.MethodPost, "disputes/"+first+"/close", `{"reason":"退您一部分","refund":{"amount":{"amount":40,"currency":"CNY"}}}`)
		require.Equal(t, "refunds, and one is named", []any{refunds(), a.Text("refund_no") != ""}, []any{1, true})
	}
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusPaid)

	second := open()
	end := "disputes/" + second + "/close"
	s.says(s.staff(firstOperator, http.MethodPost, end, `{"reason":"多退","refund":{"amount":{"amount":61,"currency":"CNY"}}}`), "refund-exceeds")
	s.says(s.staff(firstOperator, http.MethodPost, end, `{"reason":"退 0 元","refund":{"amount":{"amount":0,"currency":"CNY"}}}`), "refund-of-nothing")
	s.says(s.staff(firstOperator, http.MethodPost, end, `{"reason":"全退","refund":{}}`), "closed")
	require.Equal(t, "refunds", refunds(), 2)
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	shoppers := s.document(no, user)
	for name, doc := range map[string]answer{"shopper's": shoppers, "operators'": s.staff(firstOperator, http.MethodGet, "orders/"+no.String(), "")} {
		if state, _ := doc.Doc["dispute"].(map[string]any); state["dispute_no"] != second || state["status"] != "closed" || state["outcome"] != "refund" {
			t.Errorf("the %s document says %v", name, doc.Doc)
		}
	}
	s.has(shoppers, http.StatusOK, `"number":"`+first+`","of":"dispute","status":"open"`, `"number":"`+first+`","of":"dispute","reason":"refund","status":"closed"`,
		`"number":"`+second+`","of":"dispute","status":"open"`, `"number":"`+second+`","of":"dispute","reason":"refund","status":"closed"`)
	s.booksAreRight()
}

func TestEdgesOfRefunds(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{pay: func(c *Config) { c.Refunds.RefundApprovalAbove = approvalAbove }}),
		unitsHandedOverBeforeTheApprovalAreWrittenOff, aRetryKeepsTheLatestDecisionAboutUnits,
		aRetryForAnEarlierDisputeClosesNoOther, shoppersNotesGoWithTheAccount,
	)
}

// Goods that were handed over while a refund waited for its approval are not sold a
// second time.
func unitsHandedOverBeforeTheApprovalAreWrittenOff(t *testing.T, s *bundle) {
	no, _ := s.paidFor(approvalAbove+1, sandbox.Normal)
	before := s.stockIs()
	refundNo := s.askBack(no, `{"reason":"a whim"}`, "awaiting_approval")
	s.staff(firstOperator, http.MethodPost, "orders/"+no.String()+"/complete", "").Want(t, "complete", http.StatusOK, "")
	s.act(secondOperator, refundNo, "approve", "", "requested")
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	require.Equal(t, "units available", s.stockIs()[:len("9999,")], before[:len("9999,")])
	s.booksAreRight()
}

// A retry repeats a refund's money, not its decision about units, which may be older
// than another one's.
func aRetryKeepsTheLatestDecisionAboutUnits(t *testing.T, s *bundle) {
	no, part := s.failedRefund(`{"amount":{"amount":40,"currency":"CNY"},"reason":"scratched"}`)
	before := s.stockIs()
	s.exec(`UPDATE sandbox.payments SET behaviour = 'normal'`)
	s.askBack(no, `{"reason":"the rest","units":"write_off"}`, "requested")
	s.refundsDone(no)
	s.act(secondOperator, part, "retry", "", "requested")
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	require.Equal(t, "units available", s.stockIs()[:len("9999,")], before[:len("9999,")])
	s.booksAreRight()
}

// What a shopper wrote goes with the account, and so does the answer to a dispute; why an operator refunded stays.
func shoppersNotesGoWithTheAccount(t *testing.T, s *bundle) {
	s.plan.within = time.Hour
	t.Cleanup(func() { *s.plan = plan{} })
	no, user := s.paidFor(100, sandbox.Normal)
	s.says(s.post(user, "/api/v1/orders/"+no.String()+"/refunds", `{"reason":"my street is too narrow"}`), "requested")
	s.exec(`UPDATE payments.refunds SET status = 'failed' WHERE order_no = $1`, no)
	s.act(firstOperator, read[ids.ID](s, `SELECT refund_no FROM payments.refunds WHERE order_no = $1`, no).String(), "retry", "", "requested")
	other, otherUser := s.paidFor(100, sandbox.Normal)
	s.askBack(other, `{"reason":"damaged"}`, "requested")
	answered, third := s.paidFor(100, sandbox.Normal)
	_, err := s.Refunds.Request(t.Context(), "", refund.Request{OrderNo: answered, Reason: refund.ByDispute, Note: "退给您母亲"})
	require.NoError(t, err)
	for _, u := range []int64{user, otherUser, third} {
		require.NoError(t, pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { return s.Forget(t.Context(), tx, u) }))
	}
	note := func(no ids.ID) string {
		return read[string](s, `SELECT note FROM payments.refunds WHERE order_no = $1`, no)
	}
	require.Equal(t, "notes", [...]string{note(no), note(other), note(answered)}, [...]string{"", "damaged", ""})
	audited := func(word string) int {
		return read[int](s, `SELECT count(*) FROM platform.audit WHERE position($1 IN detail::text) > 0`, word)
	}
	if audited("street") != 0 || audited("damaged") == 0 {
		t.Errorf("the audit log has the shopper's words in %d rows, the operator's in %d", audited("street"), audited("damaged"))
	}
	s.refundsDone(no)
	s.refundsDone(other)
	s.refundsDone(answered)
	s.booksAreRight()
}
