package payment

import (
	"net/http"
	"testing"

	"stampede/order/orderevent"
	"stampede/payment/sandbox"
	"stampede/platform/workshop/require"
)

// A refund for an earlier dispute that was retried after the next one was opened is not
// taken for the refund that closes it.
func aRetryForAnEarlierDisputeClosesNoOther(t *testing.T, s *bundle) {
	no, user := s.paidFor(100, sandbox.RefundFails)
	open := func() string {
		return s.post(user, "/api/v1/orders/"+no.String()+"/disputes", `{"reason":"收到的鞋码不对"}`).text("dispute_no")
	}
	end := func(dispute, refund string) string {
		return s.staff(firstOperator, http.MethodPost, "disputes/"+dispute+"/close", `{"text":"退您一部分","refund":`+refund+`}`).text("refund_no")
	}
	failed := end(open(), `{"amount":40}`)
	s.refundsDone(no)
	second := open()
	s.exec(`UPDATE sandbox.payments SET behaviour = 'normal'`)
	retried := s.act(firstOperator, failed, "retry", "", "requested").text("refund_no")
	if got := end(second, `{"amount":20}`); got == "" || got == retried || got == failed {
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
	dispute := s.post(user, "/api/v1/orders/"+no.String()+"/disputes", `{"reason":"收到的鞋码不对"}`).text("dispute_no")
	path := "disputes/" + dispute + "/close"
	release := s.locked(`LOCK TABLE orders.dispute_texts IN SHARE MODE`)
	first := make(chan answer)
	go func() {
		first <- s.staff(firstOperator, http.MethodPost, path, `{"text":"退您一部分","refund":{"amount":40}}`)
	}()
	s.until("the closing waits to write its text, and ends", func() bool {
		return read[int](s, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	if a := <-first; a.status == http.StatusOK {
		t.Errorf("without its connection: %v", a.body)
	}
	release()
	s.staff(secondOperator, http.MethodPost, path, `{"text":"不退"}`)
	got := read[string](s, `SELECT d.status || ' ' || d.outcome || ' ' || count(r.refund_no) FROM orders.disputes d
		LEFT JOIN payments.refunds r ON r.order_no = d.order_no WHERE d.order_no = $1 GROUP BY d.status, d.outcome`, no)
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
		if a.status != http.StatusCreated {
			t.Fatalf("open: %d %v", a.status, a.body)
		}
		return a.text("dispute_no")
	}
	refunds := func() int { return read[int](s, `SELECT count(*) FROM payments.refunds WHERE order_no = $1`, no) }

	first := open()
	var a answer
	for range 2 { // sent twice, it is one
		a = s.staff(firstOperator, http.MethodPost, "disputes/"+first+"/close", `{"text":"退您一部分","refund":{"amount":40}}`)
		if a.text("refund_no") == "" || refunds() != 1 {
			t.Fatalf("%d %v; %d refunds", a.status, a.body, refunds())
		}
	}
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusPaid)

	second := open()
	if a = s.staff(firstOperator, http.MethodPost, "disputes/"+second+"/close", `{"text":"多退","refund":{"amount":61}}`); a.text("code") != "refund-exceeds" {
		t.Fatalf("more than is left: %d %v", a.status, a.body)
	}
	if a = s.staff(firstOperator, http.MethodPost, "disputes/"+second+"/close", `{"text":"退 0 元","refund":{"amount":0}}`); a.text("code") != "refund-of-nothing" {
		t.Fatalf("a refund of zero: %d %v", a.status, a.body)
	}
	if a = s.staff(firstOperator, http.MethodPost, "disputes/"+second+"/close", `{"text":"全退","refund":{}}`); a.text("status") != "closed" || refunds() != 2 {
		t.Fatalf("all that is left: %d %v; %d refunds", a.status, a.body, refunds())
	}
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	shoppers, err := s.try(http.MethodGet, user, s.url+"/api/v1/orders/"+no.String()+"/document", "")
	require.NoError(t, err)
	for name, doc := range map[string]answer{"shopper's": shoppers, "operators'": s.staff(firstOperator, http.MethodGet, "orders/"+no.String(), "")} {
		if state, _ := doc.body["dispute"].(map[string]any); state["dispute_no"] != second || state["status"] != "closed" || state["outcome"] != "refund" {
			t.Errorf("the %s document says %v", name, doc.body)
		}
	}
	s.has(shoppers, http.StatusOK, `"number":"`+first+`","of":"dispute","status":"open"`, `"number":"`+first+`","of":"dispute","reason":"refund","status":"closed"`,
		`"number":"`+second+`","of":"dispute","status":"open"`, `"number":"`+second+`","of":"dispute","reason":"refund","status":"closed"`)
	s.booksAreRight()
}
