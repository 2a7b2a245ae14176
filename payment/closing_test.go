package payment

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"stampede/order/orderevent"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
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
	s.cancelOrder(no, user+1).want(t, "another shopper", http.StatusNotFound, "")
	_, url := s.startPayment(no, user)
	before := s.available()
	a := s.cancelOrder(no, user)
	if a.status != http.StatusOK || a.text("status") != "closed" || a.text("reason") != "canceled" {
		t.Fatalf("%d %v", a.status, a.body)
	}
	require.Equal(t, "units available", s.available(), before+1)
	if p, err := s.tryPost(0, url, `{}`); err != nil || p.status != http.StatusConflict {
		t.Errorf("a canceled order was paid: %+v, %v", p, err)
	}
	s.cancelOrder(no, user).want(t, "again", http.StatusConflict, "order-not-cancelable")
	// Without a payment no provider is needed.
	no, user = s.one(100)
	s.bank.shut.Store(true)
	s.cancelOrder(no, user).want(t, "without a payment", http.StatusOK, "")
	s.booksAreRight()
}

// The shopper leaves while the claim is under way: the order is still closed,
// and not left claimed.
func cancelByOneWhoLeaves(t *testing.T, s *bundle) {
	no, user := s.one(100)
	before := s.available()
	release := s.locked(`SELECT FROM orders.orders WHERE order_no = $1 FOR UPDATE`, no)
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
	release := s.locked(`SELECT FROM inventory.stock WHERE item_id = $1 FOR UPDATE`, s.item)
	s.cancelOrder(no, user).want(t, "locked", http.StatusServiceUnavailable, "payment-unavailable")
	release()
	s.startPayment(no, user)
	if a := s.cancelOrder(no, user); a.status != http.StatusOK || a.text("reason") != "canceled" {
		t.Errorf("unlocked: %d %v", a.status, a.body)
	}
	require.Equal(t, "units available", s.available(), before+1)
	s.booksAreRight()
}

func cancelWithoutTheBank(t *testing.T, s *bundle) {
	no, user := s.one(100)
	_, url := s.startPayment(no, user)
	s.bank.shut.Store(true)
	for range 2 { // a cancel that the provider does not answer may be repeated at once
		s.cancelOrder(no, user).want(t, "", http.StatusServiceUnavailable, "payment-unavailable")
	}
	require.Equal(t, "closed without knowing about the money", s.status(no), orderevent.StatusPending)
	s.bank.shut.Store(false)
	s.payAt(url, sandbox.Normal) // the payment that closing must not overlook
	s.until("the order is paid though claimed", func() bool { return s.status(no) == orderevent.StatusPaid })
	s.cancelOrder(no, user).want(t, "canceling a paid order", http.StatusConflict, "order-not-cancelable")
	s.booksAreRight()
}

// The money arrived first, and only the closing finds out.
func closingFindsTheMoney(t *testing.T, s *bundle) {
	no, user := s.one(100)
	_, url := s.startPayment(no, user)
	s.payAt(url, sandbox.Never)
	if a := s.cancelOrder(no, user); a.status != http.StatusConflict || a.text("code") != "order-not-cancelable" || a.text("order_status") == "" {
		t.Errorf("%d %v", a.status, a.body)
	}
	s.orderIs(no, orderevent.StatusPaid)
	// An amount that differs is refunded and does not keep the order open.
	no, user = s.one(100)
	_, url = s.startPayment(no, user)
	s.payAt(url, sandbox.Underpaid)
	s.cancelOrder(no, user).want(t, "underpaid", http.StatusOK, "")
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
	if len(groups) != 2 || !slices.Equal(groups[0], nos[1:3]) || !slices.Equal(groups[1], nos[3:]) {
		t.Errorf("open payments of %v, want those of %v by provider", groups, nos)
	}
	closable, err := gone.CloseOpen(t.Context(), nos)
	if err == nil {
		t.Error("no error from a silent bank")
	}
	if want := nos[:2]; !slices.Equal(closable, want) {
		t.Errorf("closable %v, want %v", closable, want)
	}
	s.orderIs(nos[2], orderevent.StatusPaid)
	s.booksAreRight()
}
