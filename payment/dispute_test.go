package payment

import (
	"net/http"
	"testing"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/sandbox"
)

// A dispute closes with one refund: also if a process died after it had requested the
// refund, and also with all that is left after a part went back.
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
	made, err := s.RequestRefund(t.Context(), order.RefundRequest{OrderNo: no, Amount: 40, Reason: order.RefundByDispute, Note: "x", By: firstOperator})
	if err != nil {
		t.Fatal(err)
	}
	a := s.staff(firstOperator, http.MethodPost, "disputes/"+first+"/close", `{"text":"退您一部分","refund":{"amount":40}}`)
	if a.text("refund_no") != made.RefundNo.String() || refunds() != 1 {
		t.Fatalf("closed by another refund than the one of before: %d %v; %d refunds", a.status, a.body, refunds())
	}
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusPaid)

	second := open()
	if a = s.staff(firstOperator, http.MethodPost, "disputes/"+second+"/close", `{"text":"多退","refund":{"amount":61}}`); a.text("code") != "refund-exceeds" {
		t.Fatalf("more than is left: %d %v", a.status, a.body)
	}
	if a = s.staff(firstOperator, http.MethodPost, "disputes/"+second+"/close", `{"text":"全退","refund":{}}`); a.text("status") != "closed" || refunds() != 2 {
		t.Fatalf("all that is left: %d %v; %d refunds", a.status, a.body, refunds())
	}
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	shoppers, err := s.try(http.MethodGet, user, s.url+"/api/v1/orders/"+no.String()+"/document", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, doc := range map[string]answer{"shopper's": shoppers, "operators'": s.staff(firstOperator, http.MethodGet, "orders/"+no.String(), "")} {
		if state, _ := doc.body["dispute"].(map[string]any); state["dispute_no"] != second || state["status"] != "closed" || state["outcome"] != "refund" {
			t.Errorf("the %s document says %v", name, doc.body)
		}
	}
	s.booksAreRight()
}
