package payment

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
)

// approvalAbove is the shop's limit in these tests; orders of 100 are below it.
const approvalAbove = 20_000

func TestRefundsAskedFor(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{pay: func(c *Config) { c.Refunds.RefundApprovalAbove = approvalAbove }}), []subtest{
		{"an operator refunds a whole order", anOperatorRefundsAWholeOrder},
	})
}

// plan stubs seckill's part: the activity's rule about refunds.
type plan struct {
	within   time.Duration
	writeOff bool
}

func (p *plan) RefundRule(context.Context, int64) (time.Duration, bool, error) {
	return p.within, p.writeOff, nil
}

func (p *plan) WhenOnSale(context.Context, *int64, *int64, *int64) (opens, closes time.Time, known bool, err error) {
	return opens, closes, false, nil
}

// operators are the staff of the tests.
const (
	firstOperator  = int64(9_000_001)
	secondOperator = int64(9_000_002)
)

// staff sends a request as an operator.
func (s *bundle) staff(by int64, method, path, body string, headers ...string) answer {
	s.t.Helper()
	token, err := s.tokens.Mint(auth.Principal{UserID: by, Role: auth.Operator}, time.Minute)
	if err != nil {
		s.t.Fatal(err)
	}
	a, err := s.try(method, 0, s.url+"/api/v1/admin/"+path, body, append(headers, "Authorization", "Bearer "+token)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// askBack is the operator's request to refund an order; want is "status" of the
// refund, or the problem's code.
func (s *bundle) askBack(no ids.ID, body, want string) (refundNo string) {
	s.t.Helper()
	a := s.staff(firstOperator, http.MethodPost, "orders/"+no.String()+"/refunds", body)
	s.says(a, want)
	return a.text("refund_no")
}

// says requires an answer with a refund's status, or a problem's code.
func (s *bundle) says(a answer, want string) {
	s.t.Helper()
	got := a.text("status")
	if a.status != http.StatusOK {
		got = a.text("code")
	}
	if got != want {
		s.t.Fatalf("the answer is %d %v, want %s", a.status, a.body, want)
	}
}

// act is an operator's decision about a refund.
func (s *bundle) act(by int64, refundNo, verb, body, want string) answer {
	s.t.Helper()
	a := s.staff(by, http.MethodPost, "refunds/"+refundNo+"/"+verb, body)
	s.says(a, want)
	return a
}

// paidFor is an order that was paid normally, or with a bank that treats it so.
func (s *bundle) paidFor(price int64, how sandbox.Behaviour) (no ids.ID, user int64) {
	s.t.Helper()
	no, user = s.one(price)
	_, url := s.startPayment(no, user)
	s.payAt(url, how)
	s.until("the order is paid", func() bool { return s.status(no) == orderevent.StatusPaid })
	return no, user
}

// story is an order's history after it was paid: "refunding by operator 9000001, …".
func (s *bundle) story(no ids.ID) string {
	s.t.Helper()
	return read[string](s, `SELECT coalesce(string_agg(status || ' by ' || actor, ', ' ORDER BY version), '') FROM orders.history WHERE order_no = $1 AND version > 2`, no)
}

// stockIs is the item's "available, written off".
func (s *bundle) stockIs() string {
	s.t.Helper()
	return read[string](s, `SELECT format('%s, %s', available, written_off) FROM inventory.stock WHERE item_id = $1`, s.item)
}

func anOperatorRefundsAWholeOrder(t *testing.T, s *bundle) {
	before := s.stockIs()
	no, _ := s.paidFor(100, sandbox.Normal)
	refundNo := s.askBack(no, `{"reason":"damaged"}`, "requested")
	s.orderIs(no, orderevent.StatusRefunding)
	s.booksAreRight() // also while the refund is under way
	s.askBack(no, `{"reason":"again"}`, "order-not-refundable")
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	if got, want := s.story(no), fmt.Sprintf("refunding by operator %d, refunded by provider sandbox", firstOperator); got != want {
		t.Errorf("history: %s; want %s", got, want)
	}
	if got := s.stockIs(); got != before {
		t.Errorf("stock is %s, was %s", got, before)
	}
	for subject, want := range map[string]int{orderevent.SubjectRefunding: 1, orderevent.SubjectRefunded: 1, orderevent.SubjectRefundFailed: 0, paymentevent.SubjectRefunded: 1} {
		if n := s.events(subject, no); n != want {
			t.Errorf("%d events %s", n, subject)
		}
	}
	if whole := read[bool](s, `SELECT position('"whole":true' IN convert_from(payload, 'UTF8')) > 0 FROM platform.outbox
		WHERE subject = $1 AND position(convert_to($2, 'UTF8') IN payload) > 0`, paymentevent.SubjectRefunded, no.String()); !whole {
		t.Error("the event does not say that all is refunded")
	}
	if n := read[int](s, `SELECT count(*) FROM platform.audit WHERE action = 'refund.request' AND subject = $1 AND actor = $2`, "refund "+dashed(refundNo), firstOperator); n != 1 {
		t.Errorf("%d audit records", n)
	}
	s.booksAreRight()
}

// dashed is a number as ids.ID prints it.
func dashed(no string) string {
	id, err := ids.Parse(no)
	if err != nil {
		return err.Error()
	}
	return id.String()
}
