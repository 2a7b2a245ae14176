package payment

import (
	"context"
	"net/http"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/paymentevent"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestRefunds(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{pay: func(c *Config) { c.RefundAlarmAfter = 2 }}),
		lateMoneyGoesBack, aSecondCaptureOfAnOrderGoesBack, aRefundOutlivesTheBanksAbsence,
		aRefundWithoutItsCallback, refundCallbackInAnotherSum, oneRefundAskedForBySeveralInstances,
		aRefusalThatIsNotRepeated, anOrderThatAnOperatorCanceledStaysClosed,
		// From here on refunds stay failed, which the shop's books show.
		aRefundThatFails, aRefundThatIsRefused, twoCapturesOfOnePayment,
	)
}

// closeBehindTheBank closes an order as if its payment had been closed: the
// bank has confirmed a close that it does not honour.
func (s *bundle) closeBehindTheBank(no ids.ID, user int64) {
	s.t.Helper()
	_, err := s.orders.Claim(s.t.Context(), no, user)
	require.NoError(s.t, err)
	s.exec(`UPDATE payments.payments SET status = 'closed' WHERE order_no = $1`, no)
	closed, err := s.orders.CloseClaimed(s.t.Context(), []ids.ID{no}, orderevent.ReasonTimeout)
	require.NoError(s.t, err)
	require.Equal(s.t, "orders closed", len(closed), 1)
}

// late returns an order that is closed when its money arrives, and the payment
// that brings the money. The refund is requested.
func (s *bundle) late(how sandbox.Behaviour) (no, paymentNo ids.ID) {
	s.t.Helper()
	no, user := s.one(100)
	paymentNo, url := s.startPayment(no, user)
	s.closeBehindTheBank(no, user)
	s.payAt(url, how)
	s.refundRequested(no, "late")
	return no, paymentNo
}

// refundSubject is the subject of alarms about the order's refund.
func (s *bundle) refundSubject(no ids.ID) string {
	return "refund " + read[ids.ID](s, `SELECT refund_no FROM payments.refunds WHERE order_no = $1`, no).String()
}

func lateMoneyGoesBack(t *testing.T, s *bundle) {
	no, paymentNo := s.late(sandbox.Duplicate)
	require.Equal(t, "alarms about late money", s.alarms("payment-late", "provider sandbox"), 1)
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusClosed)
	s.paymentIs(paymentNo, "captured")
	require.Equal(t, "captured, refunded and surplus events", [...]int{s.events(paymentevent.SubjectCaptured, no), s.events(paymentevent.SubjectRefunded, no), s.events(paymentevent.SubjectSurplus, no)}, [...]int{0, 1, 1})
	views, err := s.Payments.Of(t.Context(), no)
	if err != nil || len(views) != 1 || len(views[0].Refunds) != 1 || views[0].Refunds[0].Status != "succeeded" || views[0].Refunds[0].Reason != "late" {
		t.Errorf("views: %+v, %v", views, err)
	}
	s.booksAreRight()
}

func aSecondCaptureOfAnOrderGoesBack(t *testing.T, s *bundle) {
	for _, olderPays := range []bool{false, true} {
		aCaptureBesideThePaymentGoesBack(t, s, olderPays)
	}
}

func aCaptureBesideThePaymentGoesBack(t *testing.T, s *bundle, olderPays bool) {
	t.Helper()
	no, user := s.one(9900)
	first, firstURL := s.startPayment(no, user)
	s.exec(`UPDATE payments.payments SET status = 'closed' WHERE payment_no = $1`, first) // the bank will not honour its close
	second, secondURL := s.startPayment(no, user)
	require.Equal(t, "another payment is offered", first != second, true)
	if olderPays {
		first, firstURL, second, secondURL = second, secondURL, first, firstURL
	}
	s.settlesAt(secondURL, no)
	s.payAt(firstURL, sandbox.Normal)
	s.refundRequested(no, "duplicate")
	require.Equal(t, "the payment that goes back, the second to be captured", read[ids.ID](s, `SELECT payment_no FROM payments.refunds WHERE order_no = $1`, no), first)
	if shown, _ := s.document(no, user).Doc["payment"].(map[string]any); shown["payment_no"] != second.String() {
		t.Errorf("the shopper's document names %v as what paid the order, want %s", shown, second)
	}
	s.booksAreRight() // also while the refund is under way
	s.refundsDone(no)
	s.booksAreRight()
	s.orderIs(no, orderevent.StatusPaid)
	require.Equal(t, "captured events", s.events(paymentevent.SubjectCaptured, no), 1)
	// What went back by itself leaves the order refundable, and its shopper reads so.
	s.plan.within = time.Hour
	t.Cleanup(func() { s.plan.within = 0 })
	if until := s.document(no, user).Text("refund_until"); until == "" {
		t.Error("not refundable after a duplicate went back")
	}
	s.says(s.post(user, "/api/v1/orders/"+no.String()+"/refunds", ""), "requested")
	s.refundsDone(no)
	s.booksAreRight()
}

// A provider that takes money twice for one payment refunds one of the two.
func twoCapturesOfOnePayment(t *testing.T, s *bundle) {
	no, user := s.one(100)
	paymentNo, _ := s.startPayment(no, user)
	for _, tt := range []struct{ txn, outcome string }{{"t1", outcomePaid}, {"t2", outcomeDuplicate}, {"t1", outcomeRepeated}, {"t2", outcomeRepeated}} {
		got, err := s.settle(t.Context(), "sandbox", provider.Capture{
			Merchant: merchantNo, PaymentNo: paymentNo, Transaction: tt.txn, Amount: 100, Currency: "CNY", At: time.Now(),
		}, told)
		if err != nil || got != tt.outcome {
			t.Errorf("%s: %s, %v; want %s", tt.txn, got, err, tt.outcome)
		}
	}
	require.Equal(t, "refunds", read[int](s, `SELECT count(*) FROM payments.refunds WHERE capture_txn = 't2' AND amount = 100 AND order_no = $1`, no), 1)
	s.finds(checkMoney, 0)
}

func aRefundOutlivesTheBanksAbsence(t *testing.T, s *bundle) {
	no, paymentNo := s.late(sandbox.Normal)
	refund := s.refundSubject(no)
	s.bank.shut.Store(true)
	s.until("the refund is stuck", func() bool {
		s.round(s.refundDue)
		return s.alarms("refund-stuck", refund) == 1
	})
	require.Equal(t, "the refund's row has an error", read[string](s, `SELECT last_error FROM payments.refunds WHERE order_no = $1`, no) != "", true)
	s.bank.shut.Store(false)
	s.refundsDone(no)
	require.Equal(t, "refunds in the ledger", s.ledger(no, kindRefund), 1)
	require.Equal(t, "what the bank gave back", read[int](s, `SELECT refunded FROM sandbox.payments WHERE payment_no = $1`, paymentNo.String()), 100)
	s.booksAreRight()
}

func aRefundWithoutItsCallback(_ *testing.T, s *bundle) {
	no, _ := s.late(sandbox.Normal)
	s.door.lose.Store(true)
	s.refundsDone(no) // by requesting again
	s.booksAreRight()
}

func aRefundThatFails(t *testing.T, s *bundle) {
	no, _ := s.late(sandbox.RefundFails)
	s.refundsDone(no)
	require.Equal(t, "refund", s.refundOf(no), "late failed")
	require.Equal(t, "alarms", s.alarms("refund-failed", s.refundSubject(no)), 1)
	s.finds(checkReturned, 1)
}

// A bank that answers slowly is asked by the instance that has claimed the refund alone. One
// whose claim ran out, because its process was frozen, asks for the same refund again, and
// both are told how that stands.
func oneRefundAskedForBySeveralInstances(t *testing.T, s *bundle) {
	no, paymentNo := s.late(sandbox.Normal)
	release := pgtest.Locked(s.t, s.db, `SELECT FROM sandbox.payments WHERE payment_no = $1 FOR UPDATE`, paymentNo.String())
	var g errgroup.Group
	ask := func() error { _, err := s.refundDue(t.Context()); return err }
	g.Go(ask)
	s.waiting(1)
	n, err := s.instance(options{}, s.client).refundDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, "refunds that another instance asks for meanwhile", n, 0)
	s.exec(`UPDATE payments.refunds SET next_try = now() WHERE order_no = $1 AND status = 'requested'`, no)
	g.Go(ask)
	s.waiting(2)
	release()
	require.NoError(t, g.Wait())
	s.refundsDone(no)
	require.Equal(t, "the refund", s.refundOf(no), "late succeeded")
	require.Equal(t, "what the bank paid back", read[int](s, `SELECT refunded FROM sandbox.payments WHERE payment_no = $1`, paymentNo.String()), 100)
	s.booksAreRight()
}

// refusing refuses the first request for a refund that another one is making.
type refusing struct {
	provider.Provider
	asked  int
	reason string // of the last request
}

func (r *refusing) Refund(ctx context.Context, ret provider.Return) (provider.RefundStatus, error) {
	r.reason = ret.Reason
	if r.asked++; r.asked == 1 {
		return provider.RefundStatus{}, provider.ErrRefused
	}
	return r.Provider.Refund(ctx, ret)
}

func aRefusalThatIsNotRepeated(t *testing.T, s *bundle) {
	no, _ := s.late(sandbox.Normal)
	bank := &refusing{Provider: s.client}
	shop := s.instance(options{}, bank)
	s.round(shop.refundDue)
	s.refundsDone(no)
	require.Equal(t, "the refund", s.refundOf(no), "late succeeded")
	s.booksAreRight()
	refundNo := read[ids.ID](s, `SELECT refund_no FROM payments.refunds WHERE order_no = $1`, no)
	row, err := s.q.Refund(t.Context(), paymentdb.RefundParams{RefundNo: refundNo, Bucket: refundNo.Bucket()})
	require.NoError(t, err)
	for _, row.Reason = range []string{"late", "duplicate", "mismatch", "shopper", "operator", "dispute"} {
		_, err := shop.requestRefund(t.Context(), row)
		require.NoError(t, err)
		if !regexp.MustCompile(`^\p{Han}+$`).MatchString(bank.reason) {
			t.Errorf("the shopper reads of a refund for %s: %q", row.Reason, bank.reason)
		}
	}
}

// A page of the bank that its shopper opened before stays payable: the money goes back,
// although the item has a unit in the backup.
func anOrderThatAnOperatorCanceledStaysClosed(t *testing.T, s *bundle) {
	no, user := s.one(100)
	_, url := s.startPayment(no, user)
	_, err := s.orders.Claim(t.Context(), no, user)
	require.NoError(t, err)
	s.exec(`UPDATE payments.payments SET status = 'closed' WHERE order_no = $1`, no)
	_, closed, err := s.orders.Withdraw(auth.Into(t.Context(), auth.Principal{UserID: firstOperator, Role: auth.Operator}), no, "sold out")
	require.NoError(t, err)
	require.Equal(t, "closed", closed, true)
	s.exec(`UPDATE inventory.stock SET total = total + 1, backup = backup + 1`)
	s.payAt(url, sandbox.Normal)
	s.refundRequested(no, "late")
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusClosed)
	s.booksAreRight()
	s.exec(`UPDATE inventory.stock SET total = total - 1, backup = backup - 1`)
}

// A refusal by the provider that it repeats fails the refund.
func aRefundThatIsRefused(t *testing.T, s *bundle) {
	no, user := s.one(100)
	paymentNo, _ := s.startPayment(no, user)
	s.closeBehindTheBank(no, user)
	// Money that the bank does not know of.
	if got, err := s.settle(t.Context(), "sandbox", provider.Capture{
		Merchant: merchantNo, PaymentNo: paymentNo, Transaction: "never", Amount: 100, Currency: "CNY", At: time.Now(),
	}, told); err != nil || got != outcomeLate {
		t.Fatalf("%s, %v", got, err)
	}
	s.refundsDone(no)
	require.Equal(t, "the refund", s.refundOf(no), "late failed")
	require.Equal(t, "alarms", s.alarms("refund-failed", s.refundSubject(no)), 1)
}

func refundCallbackInAnotherSum(t *testing.T, s *bundle) {
	no, paymentNo := s.late(sandbox.Normal)
	st := provider.RefundStatus{
		State: provider.Succeeded, Merchant: merchantNo, RefundNo: read[ids.ID](s, `SELECT refund_no FROM payments.refunds WHERE order_no = $1`, no), PaymentNo: paymentNo,
		Transaction: "r1", Amount: 99, Currency: "CNY", At: time.Now(),
	}
	if err := s.settleRefund(t.Context(), "sandbox", st, told); err == nil || s.alarms("payment-mismatch", s.refundSubject(no)) != 1 {
		t.Errorf("another amount was accepted: %v", err)
	}
	st.Amount = 100
	for range 2 {
		require.NoError(t, s.settleRefund(t.Context(), "sandbox", st, told))
	}
	st.Transaction = "r2" // the provider paid back twice
	if err := s.settleRefund(t.Context(), "sandbox", st, told); err == nil || s.alarms("payment-transaction-reused", "sandbox transaction r2") != 1 {
		t.Errorf("a second movement of one refund: %v", err)
	}
	require.Equal(t, "refunded events", s.events(paymentevent.SubjectRefunded, no), 1)
}

func providerNoLongerConfigured(t *testing.T, s *bundle) {
	both := s.instance(options{}, s.client, s.clientOf("bank2", s.bankAt))
	no, user := s.one(100)
	_, err := both.begin(t.Context(), no, user, way{Provider: "bank2"})
	require.NoError(t, err)
	closable, err := s.CloseOpen(t.Context(), []ids.ID{no})
	if err == nil || len(closable) != 0 {
		t.Errorf("closed without its provider: %v, %v", closable, err)
	}
	require.Equal(t, "alarms", s.alarms("payment-provider-missing", "bank2"), 1)
	s.cancelOrder(no, user).Want(t, "cancel", http.StatusServiceUnavailable, "")
}
