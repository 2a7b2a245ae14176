package payment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/order/coupon"
	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/payment/refund"
	"stampede/payment/sandbox"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// approvalAbove is the shop's limit in these tests; orders of 100 are below it.
const approvalAbove = 20_000

func TestRefundsAskedFor(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{pay: func(c *Config) { c.Refunds.RefundApprovalAbove = approvalAbove }}),
		anOperatorRefundsAWholeOrder, partsOfAnOrderGoBack, requestsAtOneMomentNeverExceedThePayment,
		aSecondOperatorApprovesLargeRefunds, aRejectedRefundLeavesTheOrderAsItIs,
		shoppersRefundByTheActivitysRule, unitsAreWrittenOff, anOrderThatCostNothingIsRefunded,
		aFailedRefundIsRetried, aFailedRefundIsSettledByHand, aFailedPartKeepsTheOrderFromBeingRefunded,
		disputesCloseWithOneRefund, aRefundAndItsDisputeEndTogether, theWorklistIsByStatus,
	)
}

// plan stubs seckill's part: the activity's rule about refunds.
type plan struct {
	coupon.Reservations // what no test here asks
	within              time.Duration
	writeOff            bool
	sale                seckillevent.Sale
}

func (p *plan) RefundRule(context.Context, int64) (time.Duration, bool, error) {
	return p.within, p.writeOff, nil
}

func (p *plan) SaleOf(context.Context, int64) (seckillevent.Sale, error) {
	return p.sale, nil
}

func (p *plan) WhenOnSale(context.Context, *int64, *int64, *int64) (opens, closes time.Time, known bool, err error) {
	return opens, closes, false, nil
}

func (p *plan) ItemsOfSKU(context.Context, string, int) (items []int64, opens, closes time.Time, err error) {
	return nil, opens, closes, nil
}

// operators are the staff of the tests.
const (
	firstOperator  = int64(9_000_001)
	secondOperator = int64(9_000_002)
	keyMaker       = int64(9_000_003) // has made an API key that acts as firstOperator
)

// staff sends a request as an operator.
func (s *bundle) staff(by int64, method, path, body string, headers ...string) answer {
	s.t.Helper()
	token := s.token(auth.Principal{UserID: by, Role: auth.Operator})
	a, err := s.try(method, 0, s.url+"/api/v1/admin/"+path, body, append(headers, "Authorization", "Bearer "+token)...)
	require.NoError(s.t, err)
	return a
}

// askBack is the operator's request to refund an order; want is "status" of the
// refund, or the problem's code.
func (s *bundle) askBack(no ids.ID, body, want string) (refundNo string) {
	s.t.Helper()
	a := s.staff(firstOperator, http.MethodPost, "orders/"+no.String()+"/refunds", body, "Idempotency-Key", ids.New().String())
	s.says(a, want)
	return a.Text("refund_no")
}

// says requires an answer with a refund's status, or a problem's code.
func (s *bundle) says(a answer, want string) {
	s.t.Helper()
	got := a.Text("status")
	if a.Status != http.StatusOK {
		got = a.Text("code")
	}
	if got != want {
		s.t.Fatalf("the answer is %d %v, want %s", a.Status, a.Doc, want)
	}
}

// act is an operator's decision about a refund.
func (s *bundle) act(by int64, refundNo, verb, body, want string) answer {
	s.t.Helper()
	a := s.staff(by, http.MethodPost, "refunds/"+refundNo+"/"+verb, body)
	s.says(a, want)
	return a
}

// pays pays an order at a bank that treats it so, or normally.
func (s *bundle) pays(no ids.ID, user int64, how ...sandbox.Behaviour) {
	s.t.Helper()
	_, url := s.startPayment(no, user)
	s.settlesAt(url, no, how...)
}

// paidFor is an order that was paid so.
func (s *bundle) paidFor(price int64, how sandbox.Behaviour) (no ids.ID, user int64) {
	s.t.Helper()
	no, user = s.one(price)
	s.pays(no, user, how)
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
	require.Equal(t, "history", s.story(no), fmt.Sprintf("refunding by operator %d, refunded by provider sandbox", firstOperator))
	require.Equal(t, "stock", s.stockIs(), before)
	for subject, want := range map[string]int{orderevent.SubjectRefunding: 1, orderevent.SubjectRefunded: 1, orderevent.SubjectRefundFailed: 0, paymentevent.SubjectRefunded: 1} {
		require.Equal(t, "events", s.events(subject, no), want)
	}
	require.Equal(t, "events that say that all is refunded", s.wholeEvents(no), 1)
	require.Equal(t, "audit records", read[int](s, `SELECT count(*) FROM platform.audit WHERE action = 'refund.request' AND subject = $1 AND actor = $2`, "refund "+refundNo, firstOperator), 1)
	s.booksAreRight()
}

func partsOfAnOrderGoBack(t *testing.T, s *bundle) {
	no, _ := s.paidFor(100, sandbox.Normal)
	// A capture of nothing, which the bank reported before, paid nothing.
	s.exec(`INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, amount, currency, at)
		SELECT provider, kind, 'nothing', payment_no, order_no, 0, currency, at - interval '1 hour' FROM payments.ledger WHERE order_no = $1`, no)
	path, part := "orders/"+no.String()+"/refunds", `{"amount":{"amount":30,"currency":"CNY"},"reason":"scratched"}`
	s.says(s.staff(firstOperator, http.MethodPost, path, part), "idempotency-key-required")
	for range 2 { // sent twice, it is one
		s.says(s.staff(firstOperator, http.MethodPost, path, part, "Idempotency-Key", "scratch"), "requested")
	}
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusPaid)
	s.booksAreRight()
	tooMuch := s.staff(firstOperator, http.MethodPost, path, `{"amount":{"amount":71,"currency":"CNY"},"reason":"too much"}`, "Idempotency-Key", "too much")
	s.says(tooMuch, "refund-exceeds")
	if says := fmt.Sprint(tooMuch.Doc); !strings.Contains(says, "At most CNY 0.70 can still be refunded") || !strings.Contains(says, "location:body.amount") {
		t.Errorf("the refusal neither names what is left nor marks the amount: %s", says)
	}
	s.askBack(no, `{"amount":{"amount":0,"currency":"CNY"},"reason":"0.00 is not all"}`, "refund-of-nothing")
	s.has(s.staff(firstOperator, http.MethodPost, path, `{"amount":{"amount":1,"currency":"JPY"},"reason":"yen of yuan"}`, "Idempotency-Key", "yen"),
		http.StatusUnprocessableEntity, `"location":"body.amount.currency"`, "Use CNY.")
	s.askBack(no, `{"amount":{"amount":20,"currency":"CNY"},"reason":"scratched again"}`, "requested")
	s.orderIs(no, orderevent.StatusPaid)
	s.askBack(no, `{"reason":"the rest"}`, "requested") // while a part is under way
	s.orderIs(no, orderevent.StatusRefunding)
	s.booksAreRight()
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	require.Equal(t, "refunds", read[string](s, `SELECT string_agg(amount::text, ' ' ORDER BY refund_no) FROM payments.refunds WHERE order_no = $1 AND status = 'succeeded'`, no), "30 20 50")
	require.Equal(t, "events, and those about the whole", [...]int{s.events(paymentevent.SubjectRefunded, no), s.wholeEvents(no)}, [...]int{3, 1})
	s.booksAreRight()
}

// wholeEvents counts the events that say that all of an order's money is back.
func (s *bundle) wholeEvents(no ids.ID) int {
	return read[int](s, `SELECT count(*) FROM platform.outbox WHERE subject = $1 AND position(convert_to($2, 'UTF8') IN payload) > 0
		AND position('"whole":true' IN convert_from(payload, 'UTF8')) > 0`, paymentevent.SubjectRefunded, no.String())
}

// Concurrent requests in any amounts, whole ones among them, are granted until the
// payment is used up, and the order ends as their sum says.
func requestsAtOneMomentNeverExceedThePayment(t *testing.T, s *bundle) {
	for _, amounts := range [][]int64{{60, 60, 60}, {0, 0, 10, 0}, {50, 50, 1}, {40, 30, 20, 10, 5}} {
		no, _ := s.paidFor(100, sandbox.Normal)
		var g errgroup.Group
		for _, amount := range amounts {
			g.Go(func() error {
				_, err := s.Refunds.Request(t.Context(), "", refund.Request{OrderNo: no, Amount: allIfZero(amount), Reason: refund.ByDispute})
				if _, refused := errors.AsType[*fault.Error](err); refused {
					return nil
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		s.booksAreRight()
		s.refundsDone(no)
		back := read[int64](s, `SELECT sum(amount)::bigint FROM payments.refunds WHERE order_no = $1`, no)
		want := orderevent.StatusPaid
		if back == 100 {
			want = orderevent.StatusRefunded
		}
		if got := s.status(no); back > 100 || got != want {
			t.Errorf("%v: %d of 100 went back, the order is %s", amounts, back, got)
		}
		s.booksAreRight()
	}
}

// allIfZero is what a request for a refund asks for: all that is left for zero.
func allIfZero(amount int64) *orderevent.Money {
	if amount == 0 {
		return nil
	}
	return &orderevent.Money{Amount: amount, Currency: "CNY"}
}

func aSecondOperatorApprovesLargeRefunds(t *testing.T, s *bundle) {
	no, _ := s.paidFor(approvalAbove+100, sandbox.Normal)
	s.askBack(no, `{"amount":{"amount":20000,"currency":"CNY"},"reason":"at the limit"}`, "requested")
	refundNo := s.askBack(no, `{"amount":{"amount":1,"currency":"CNY"},"reason":"one above it in all"}`, "awaiting_approval")
	s.askBack(no, `{"amount":{"amount":100,"currency":"CNY"},"reason":"more than is left"}`, "refund-exceeds")
	rest := s.askBack(no, `{"reason":"the rest"}`, "awaiting_approval")
	require.Equal(t, "refunds that are announced to wait", read[string](s, `SELECT string_agg(p->>'refund_no', ' ' ORDER BY id) FROM platform.outbox, convert_from(payload, 'UTF8') t, CAST(t AS jsonb) p
		WHERE subject = 'events.payment.refund_awaiting' AND p->>'order_no' = $1`, no.String()), refundNo+" "+rest)
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusPaid)
	s.booksAreRight()
	s.act(firstOperator, refundNo, "approve", "", "refund-second-operator")
	_, err := s.db.Exec(t.Context(), `WITH service AS (INSERT INTO account.users (id, name) OVERRIDING SYSTEM VALUE VALUES ($1, 'Warehouse') RETURNING id)
		INSERT INTO account.api_keys (user_id, name, hash, hint, scopes, created_by) SELECT id, 'Warehouse', '\x00', '', '{orders:write}', $2 FROM service`, firstOperator, keyMaker)
	require.NoError(t, err)
	s.act(keyMaker, refundNo, "approve", "", "refund-second-operator")
	s.act(secondOperator, refundNo, "approve", "", "requested")
	s.act(secondOperator, refundNo, "approve", "", "refund-not-waiting")
	s.act(secondOperator, refundNo, "reject", "", "refund-not-waiting")
	s.orderIs(no, orderevent.StatusPaid)
	s.act(secondOperator, rest, "approve", "", "requested")
	s.orderIs(no, orderevent.StatusRefunding)
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	require.Equal(t, "refunds name both operators", read[int](s, `SELECT count(*) FROM payments.refunds WHERE order_no = $1 AND requested_by = $2 AND decided_by = $3`, no, firstOperator, secondOperator), 2)
	s.booksAreRight()
}

func aRejectedRefundLeavesTheOrderAsItIs(_ *testing.T, s *bundle) {
	no, _ := s.paidFor(approvalAbove+1, sandbox.Normal)
	refundNo := s.askBack(no, `{"reason":"a whim"}`, "awaiting_approval")
	s.act(firstOperator, refundNo, "reject", "", "rejected") // also who asked may take it back
	s.act(secondOperator, refundNo, "approve", "", "refund-not-waiting")
	s.orderIs(no, orderevent.StatusPaid)
	s.booksAreRight()
	s.askBack(no, `{"reason":"a reason"}`, "awaiting_approval")
}

func shoppersRefundByTheActivitysRule(t *testing.T, s *bundle) {
	no, user := s.paidFor(100, sandbox.Normal)
	path := "/api/v1/orders/" + no.String() + "/refunds"
	s.says(s.post(user, path, ""), "refund-not-allowed")
	*s.plan = plan{within: time.Hour}
	t.Cleanup(func() { *s.plan = plan{} })
	s.exec(`UPDATE orders.orders SET status = 'completed' WHERE order_no = $1`, no)
	s.says(s.post(user, path, ""), "refund-not-allowed")
	s.exec(`UPDATE orders.orders SET status = 'paid' WHERE order_no = $1`, no)
	s.plan.within = time.Nanosecond
	s.says(s.post(user, path, ""), "refund-not-allowed")
	s.plan.within = time.Hour
	stranger := user + 1
	s.says(s.post(stranger, path, ""), "not-found")
	for ids.Bucket(stranger) != ids.Bucket(user) { // the number alone does not tell whose it is
		stranger++
	}
	s.says(s.post(stranger, path, ""), "not-found")
	s.says(s.post(user, path, `{"reason":"too small"}`), "requested")
	s.says(s.post(user, path, ""), "order-not-refundable")
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	require.Equal(t, "history", s.story(no), "refunding by shopper, refunded by provider sandbox")
	// What an operator has refunded in part is the operator's to decide about.
	no, user = s.paidFor(100, sandbox.Normal)
	s.askBack(no, `{"amount":{"amount":1,"currency":"CNY"},"reason":"scratched"}`, "requested")
	s.says(s.post(user, "/api/v1/orders/"+no.String()+"/refunds", ""), "refund-not-allowed")
	s.refundsDone(no)
	s.booksAreRight()
}

func unitsAreWrittenOff(t *testing.T, s *bundle) {
	for _, tt := range []struct {
		name             string
		writeOff         bool // the activity's rule
		completed        bool
		units            string // the operator's choice
		returned, writen int
	}{
		{"by choice", false, false, `,"units":"write_off"`, 0, 1},
		{"by rule", true, false, "", 0, 1},
		{"by choice against the rule", true, false, `,"units":"return"`, 1, 0},
		{"because the goods were handed out", false, true, "", 0, 1},
		{"by default not", false, false, "", 1, 0},
	} {
		s.plan.writeOff = tt.writeOff
		no, _ := s.paidFor(100, sandbox.Normal)
		if tt.completed {
			s.exec(`UPDATE orders.orders SET status = 'completed' WHERE order_no = $1`, no)
		}
		var available, written int
		_, err := fmt.Sscanf(s.stockIs(), "%d, %d", &available, &written)
		require.NoError(t, err)
		rev := read[int](s, `SELECT rev FROM inventory.stock WHERE item_id = $1`, s.item)
		s.askBack(no, `{"reason":"damaged"`+tt.units+`}`, "requested")
		s.refundsDone(no)
		require.Equal(t, tt.name+": stock", s.stockIs(), fmt.Sprintf("%d, %d", available+tt.returned, written+tt.writen))
		require.Equal(t, tt.name+": rev", read[int](s, `SELECT rev FROM inventory.stock WHERE item_id = $1`, s.item), rev+tt.writen)
		s.orderIs(no, orderevent.StatusRefunded)
	}
	s.plan.writeOff = false
	s.booksAreRight()
}

func anOrderThatCostNothingIsRefunded(_ *testing.T, s *bundle) {
	no, user := s.one(0)
	s.says(s.askToPay(no, user), "captured")
	s.askBack(no, `{"reason":"a free gift comes back"}`, "requested")
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	s.booksAreRight()
}
