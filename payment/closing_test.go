package payment

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestClosing(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{}),
		cancel, cancelByOneWhoLeaves, cancelOfALockedItem, cancelWithoutTheBank, closingFindsTheMoney,
		closeOpenSortsOrders, queries, providerNoLongerConfigured,
	)
}

func (s *bundle) available() int {
	return read[int](s, `SELECT available FROM inventory.stock WHERE item_id = $1`, s.item)
}

func cancel(t *testing.T, s *bundle) {
	no, user := s.one(100)
	s.cancelOrder(no, user+1).Want(t, "another shopper", http.StatusNotFound, "")
	_, url := s.startPayment(no, user)
	before := s.available()
	a := s.cancelOrder(no, user).Want(t, "cancel", http.StatusOK, "")
	require.Equal(t, "status and reason", [...]string{a.Text("status"), a.Text("reason")}, [...]string{"closed", "canceled"})
	require.Equal(t, "units available", s.available(), before+1)
	require.Equal(t, "events about the payment", s.events(paymentevent.SubjectClosed, no), 1)
	p, err := s.tryPost(0, url, `{}`)
	require.NoError(t, err)
	p.Want(t, "paying a canceled order", http.StatusConflict, "")
	s.cancelOrder(no, user).Want(t, "again", http.StatusConflict, "order-not-cancelable")
	// Without a payment no provider is needed.
	no, user = s.one(100)
	s.bank.shut.Store(true)
	s.cancelOrder(no, user).Want(t, "without a payment", http.StatusOK, "")
	require.Equal(t, "events about no payment", s.events(paymentevent.SubjectClosed, no), 0)
	s.booksAreRight()
}

// The shopper leaves while the claim is under way: the order is still closed,
// and not left claimed.
func cancelByOneWhoLeaves(t *testing.T, s *bundle) {
	no, user := s.one(100)
	before := s.available()
	release := pgtest.Locked(s.t, s.db, `SELECT FROM orders.orders WHERE order_no = $1 FOR UPDATE`, no)
	request, leave := context.WithCancel(auth.Into(t.Context(), auth.Principal{UserID: user}))
	ended := make(chan error, 1)
	go func() {
		_, err := s.cancel(request, &cancelInput{No: no.String()})
		ended <- err
	}()
	s.waiting(1)
	leave()
	release()
	require.NoError(t, <-ended)
	s.orderIs(no, orderevent.StatusClosed)
	require.Equal(t, "units available", s.available(), before+1)
	s.booksAreRight()
}

// The item's stock row stays locked for as long as the cancel waits for it: the cancel fails
// and leaves the order as it was, to be paid or canceled at once.
func cancelOfALockedItem(t *testing.T, s *bundle) {
	no, user := s.one(100)
	before := s.available()
	release := pgtest.Locked(s.t, s.db, `SELECT FROM inventory.stock WHERE item_id = $1 FOR UPDATE`, s.item)
	s.cancelOrder(no, user).Want(t, "locked", http.StatusServiceUnavailable, "payment-unavailable")
	release()
	s.startPayment(no, user)
	require.Equal(t, "reason", s.cancelOrder(no, user).Want(t, "unlocked", http.StatusOK, "").Text("reason"), "canceled")
	require.Equal(t, "units available", s.available(), before+1)
	s.booksAreRight()
}

func cancelWithoutTheBank(t *testing.T, s *bundle) {
	no, user := s.one(100)
	_, url := s.startPayment(no, user)
	s.bank.shut.Store(true)
	for range 2 { // a cancel that the provider does not answer may be repeated at once
		s.cancelOrder(no, user).Want(t, "", http.StatusServiceUnavailable, "payment-unavailable")
	}
	require.Equal(t, "closed without knowing about the money", s.status(no), orderevent.StatusPending)
	s.bank.shut.Store(false)
	s.settlesAt(url, no) // the payment that closing must not overlook
	s.cancelOrder(no, user).Want(t, "canceling a paid order", http.StatusConflict, "order-not-cancelable")
	s.booksAreRight()
}

// The money arrived first, and only the closing finds out.
func closingFindsTheMoney(t *testing.T, s *bundle) {
	no, user := s.one(100)
	_, url := s.startPayment(no, user)
	s.payAt(url, sandbox.Never)
	a := s.cancelOrder(no, user).Want(t, "money at the bank", http.StatusConflict, "order-not-cancelable")
	require.Equal(t, "it says what the order is", a.Text("order_status") != "", true)
	s.orderIs(no, orderevent.StatusPaid)
	// An amount that differs is refunded and does not keep the order open.
	no, user = s.one(100)
	_, url = s.startPayment(no, user)
	s.payAt(url, sandbox.Underpaid)
	s.cancelOrder(no, user).Want(t, "underpaid", http.StatusOK, "")
	s.refundsDone(no)
	s.booksAreRight()
}

func closeOpenSortsOrders(t *testing.T, s *bundle) {
	nos, users := s.buy(4, 100)
	_, _ = s.startPayment(nos[1], users[1])
	_, paid := s.startPayment(nos[2], users[2])
	s.payAt(paid, sandbox.Never)
	gone := s.instance(options{}, s.client, s.clientOf("bank2", "http://127.0.0.1:1"))
	if _, err := gone.begin(t.Context(), nos[3], users[3], way{Provider: "bank2"}); err == nil {
		t.Fatal("a bank that is not there took a payment")
	}
	groups, err := gone.OpenOf(t.Context(), nos)
	require.NoError(t, err)
	slices.SortFunc(groups, func(a, b []ids.ID) int { return len(b) - len(a) })
	require.Equal(t, "open payments by provider", groups, [][]ids.ID{nos[1:3], nos[3:]})
	closable, err := gone.CloseOpen(t.Context(), nos)
	if err == nil {
		t.Error("no error from a silent bank")
	}
	require.Equal(t, "closable", closable, nos[:2])
	s.orderIs(nos[2], orderevent.StatusPaid)
	s.booksAreRight()
}

func queries(t *testing.T, s *bundle) {
	ask := func() { s.round(s.queryDue) }
	// Open: nothing changes, and the next query comes later.
	no, user := s.one(100)
	open, _ := s.startPayment(no, user)
	s.exec(`UPDATE payments.payments SET queries = 16, next_query = now() WHERE payment_no = $1`, open)
	ask()
	s.paymentIs(open, "created")
	if wait := read[float64](s, `SELECT extract(epoch FROM next_query - now())::float8 FROM payments.payments WHERE payment_no = $1`, open); wait < 55 || wait > 65.536 { // 2^16 ms after the query
		t.Errorf("queried again after %v s", wait)
	}
	// Its order no longer waits for it: closed.
	s.exec(`UPDATE orders.orders SET status = 'closed' WHERE order_no = $1`, no)
	s.exec(`UPDATE payments.payments SET next_query = now() WHERE payment_no = $1`, open)
	ask()
	s.paymentIs(open, "closed")
	st, err := s.client.Query(t.Context(), provider.Payment{No: open})
	require.NoError(t, err)
	require.Equal(t, "at the bank it", st.State, provider.Closed)
	// Expired, never created at the bank: closed.
	no, user = s.one(100)
	s.bank.shut.Store(true)
	s.askToPay(no, user).Want(t, "", http.StatusServiceUnavailable, "")
	s.bank.shut.Store(false)
	missing := read[ids.ID](s, `SELECT payment_no FROM payments.payments WHERE order_no = $1`, no)
	s.exec(`UPDATE payments.payments SET next_query = now() WHERE payment_no = $1`, missing)
	ask()
	s.paymentIs(missing, "created")
	s.exec(`UPDATE payments.payments SET next_query = now(), expires_at = now() - interval '1 second' WHERE payment_no = $1`, missing)
	ask()
	s.paymentIs(missing, "closed")
	s.booksAreRight()
}

func TestTheWorkersRun(t *testing.T) {
	t.Parallel()
	s := setup(t, options{pay: func(c *Config) { c.Poll = 10 * time.Millisecond }})
	for _, w := range s.Workers() {
		pgtest.Work(t, w.Run)
	}
	no, user := s.one(100)
	_, url := s.startPayment(no, user)
	s.payAt(url, sandbox.Never)
	s.exec(`UPDATE payments.payments SET next_query = now() WHERE order_no = $1`, no) // it may have been asked about before
	s.until("the order is paid without a callback", func() bool { return s.status(no) == orderevent.StatusPaid })
	no, user = s.one(100)
	_, url = s.startPayment(no, user)
	s.closeBehindTheBank(no, user)
	s.payAt(url, sandbox.Normal)
	s.until("late money goes back", func() bool { return s.refundOf(no) == "late succeeded" })
	s.booksAreRight()
}

// TestSilentProviderDelaysClosingsWithinABound: orders whose provider gives no answer
// are closed when its time is over, with an alarm, and their units return. Money that
// it took is late once it answers: one order gets the unit of the backup, the other
// its money back.
func TestSilentProviderDelaysClosingsWithinABound(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	s.exec(`UPDATE inventory.stock SET total = total + 1, backup = 1`)
	before := s.available()
	nos, users := s.buy(3, 100)
	for i, no := range nos {
		if _, url := s.startPayment(no, users[i]); i < 2 {
			s.payAt(url, sandbox.Never)
		}
	}
	s.bank.shut.Store(true)
	expire := func() (closable int) {
		t.Helper()
		s.exec(`UPDATE orders.orders SET closing_until = NULL`)
		claimed, err := s.orders.ClaimDue(t.Context(), 10)
		require.NoError(t, err)
		can, err := s.CloseOpen(t.Context(), claimed)
		if len(claimed) != 3 || (err != nil) != (len(can) == 0) {
			t.Fatalf("%d claimed, %d closable, %v", len(claimed), len(can), err)
		}
		_, err = s.orders.CloseClaimed(t.Context(), can, orderevent.ReasonTimeout)
		require.NoError(t, err)
		return len(can)
	}
	ago := func(expired string) {
		t.Helper()
		s.exec(`UPDATE orders.orders SET pay_deadline = now() - $1::interval`, expired)
		s.exec(`UPDATE payments.payments SET expires_at = now() - $1::interval`, expired)
	}
	ago("9 minutes")
	require.Equal(t, "orders closable and alarms within the bound", [...]int{expire(), s.alarms("payment-closed-unanswered", "provider sandbox")}, [...]int{0, 0})
	ago("11 minutes")
	require.Equal(t, "orders closable and alarms after the bound", [...]int{expire(), s.alarms("payment-closed-unanswered", "provider sandbox")}, [...]int{3, 1})
	require.Equal(t, "units available", s.available(), before)
	require.Equal(t, "payments open to queries", read[int](s, `SELECT count(*) FROM payments.payments WHERE status = 'created'`), 3)
	s.booksAreRight()

	s.bank.shut.Store(false)
	s.until("the queries end", func() bool {
		s.exec(`UPDATE payments.payments SET next_query = now() WHERE status = 'created'`)
		s.round(s.queryDue)
		return read[int](s, `SELECT count(*) FROM payments.payments WHERE status = 'created'`) == 0
	})
	paid := read[int](s, `SELECT count(*) FROM orders.orders WHERE status = 'paid' AND reason = 'backup'`)
	late := read[int](s, `SELECT count(*) FROM payments.refunds WHERE reason = 'late'`)
	require.Equal(t, "orders that got the backup, or their money back, units available", [...]int{paid, late, s.available()}, [...]int{1, 1, before})
	s.booksAreRight()
}
