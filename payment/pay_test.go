package payment

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

func TestPaying(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{}),
		pay, startConcurrently, startRefuses, waysToPayAreListed, aRefusedChoiceKeepsTheOpenPayment,
		providersAreAskedBeforeASale, startWithoutTheBank, payWithoutTheBooks, startInTheLastMoment,
		startAfterUnreportedEnd, startWithoutAProvider, anotherProviderClosesTheOlderPayment,
		theOpenPaymentEndsWhileAnotherIsStarted, theFirstProviderWhoseWindowFits, aFreeOrderIsPaidByAsking,
		startUnderAKey,
	)
}

func pay(t *testing.T, s *bundle) {
	no, user := s.one(9900)
	path := "/api/v1/orders/" + no.String() + "/payments"
	a := s.post(user, path, "").Want(t, "start", http.StatusOK, "")
	amount, _ := a.Doc["amount"].(map[string]any)
	if a.Text("provider") != "sandbox" || a.Text("status") != "created" || amount["amount"] != 9900.0 || amount["currency"] != "CNY" ||
		a.Text("order_no") != no.String() {
		t.Errorf("document: %v", a.Doc)
	}
	deadline := read[time.Time](s, `SELECT pay_deadline FROM orders.orders WHERE order_no = $1`, no)
	require.Equal(t, "it expires with the order", a.Text("expires_at"), orderevent.Time(deadline))
	late := read[bool](s, `SELECT max(expires_at) > $2 FROM sandbox.payments WHERE payment_no = $1`, a.Text("payment_no"), deadline)
	require.Equal(t, "the bank takes money after the order's deadline", late, false)
	again := s.post(user, path, `{"provider":"sandbox"}`)
	require.Equal(t, "repeated", [...]string{again.Text("pay_url"), again.Text("payment_no")}, [...]string{a.Text("pay_url"), a.Text("payment_no")})
	const stored = "https://bank.invalid/"
	for left, want := range map[time.Duration]string{time.Hour: stored, -time.Second: a.Text("pay_url")} {
		s.exec(`UPDATE payments.payments SET handoff = handoff || jsonb_build_object('url', '`+stored+`', 'until', $2::timestamptz) WHERE payment_no = $1`,
			a.Text("payment_no"), time.Now().Add(left))
		again = s.post(user, path, "")
		require.Equal(t, "repeated with "+left.String()+" left", [...]string{again.Text("pay_url"), again.Text("payment_no")}, [...]string{want, a.Text("payment_no")})
	}

	s.settlesAt(a.Text("pay_url"), no)
	require.Equal(t, "ledger rows", read[int](s, `SELECT count(*) FROM payments.ledger WHERE order_no = $1 AND kind = 'capture' AND amount = 9900`, no), 1)
	require.Equal(t, "captured and paid events", [...]int{s.events(paymentevent.SubjectCaptured, no), s.events(orderevent.SubjectPaid, no)}, [...]int{1, 1})
	views, err := s.Payments.Of(t.Context(), no)
	if err != nil || len(views) != 1 || views[0].Status != "captured" || views[0].ProviderTxn == "" || views[0].Amount.Amount != 9900 {
		t.Errorf("views: %+v, %v", views, err)
	}
	s.post(user, path, "").Want(t, "paying a paid order", http.StatusConflict, "order-not-payable")
	s.until("the bank was heard", func() bool { return s.callbacksLeft(views[0].PaymentNo) == 0 })
	s.booksAreRight()
}

func startConcurrently(t *testing.T, s *bundle) {
	no, user := s.one(100)
	var wg sync.WaitGroup
	urls := make([]string, 20)
	for i := range urls {
		wg.Go(func() {
			a, err := s.tryPost(user, s.url+"/api/v1/orders/"+no.String()+"/payments", "")
			if err != nil || a.Status != http.StatusOK {
				t.Errorf("start: %+v, %v", a, err)
			}
			urls[i] = a.Text("pay_url")
		})
	}
	wg.Wait()
	require.Equal(t, "payments started", len(slices.Compact(urls)), 1)
	require.Equal(t, "rows", read[int](s, `SELECT count(*) FROM payments.payments WHERE order_no = $1`, no), 1)
}

func startRefuses(t *testing.T, s *bundle) {
	no, user := s.one(100)
	closed, closedUser := s.one(100)
	s.exec(`UPDATE orders.orders SET status = 'closed' WHERE order_no = $1`, closed)
	claimed, claimedUser := s.one(100)
	_, err := s.orders.Claim(t.Context(), claimed, claimedUser)
	require.NoError(t, err)
	short, shortUser := s.one(100)
	s.exec(`UPDATE orders.orders SET pay_deadline = now() + interval '900 milliseconds' WHERE order_no = $1`, short)
	over, overUser := s.one(100)
	s.exec(`UPDATE orders.orders SET pay_deadline = now() - interval '1 second' WHERE order_no = $1`, over)
	for _, tt := range []struct {
		name   string
		user   int64
		no     string
		body   string
		status int
		code   string
	}{
		{"no token", 0, no.String(), "", 401, "no-token"},
		{"another shopper", user + 1, no.String(), "", 404, "not-found"},
		{"no number", user, "x", "", 404, "not-found"},
		{"an unknown number", user, ids.NewFor(user).String(), "", 404, "not-entered"},
		{"an unknown provider", user, no.String(), `{"provider":"bitcoin"}`, 422, "invalid"},
		{"the free provider", user, no.String(), `{"provider":"free"}`, 422, "invalid"},
		{"a closed order", closedUser, closed.String(), "", 409, "order-not-payable"},
		{"an order being closed", claimedUser, claimed.String(), "", 409, "order-closing"},
		{"less than the bank's shortest window left", shortUser, short.String(), "", 409, "order-not-payable"},
		{"after the deadline", overUser, over.String(), "", 409, "order-not-payable"},
	} {
		s.post(tt.user, "/api/v1/orders/"+tt.no+"/payments", tt.body).Want(t, tt.name, tt.status, tt.code)
	}
	require.Equal(t, "payments after refused requests", read[int](s, `SELECT count(*) FROM payments.payments WHERE order_no = ANY($1)`, []ids.ID{no, closed, claimed, short, over}), 0)
}

func startWithoutTheBank(t *testing.T, s *bundle) {
	no, user := s.one(100)
	s.bank.shut.Store(true)
	path := "/api/v1/orders/" + no.String() + "/payments"
	s.post(user, path, "").Want(t, "", http.StatusServiceUnavailable, "payment-unavailable")
	row := read[ids.ID](s, `SELECT payment_no FROM payments.payments WHERE status = 'created' AND handoff = '{}' AND order_no = $1`, no)
	s.bank.shut.Store(false)
	require.Equal(t, "the payment", s.post(user, path, "").Want(t, "once the bank is back", http.StatusOK, "").Text("payment_no"), row.String())
}

// While our own books are down, the shopper gets that as the reason, not an
// internal error.
func payWithoutTheBooks(t *testing.T, s *bundle) {
	no, user := s.one(100)
	s.exec(`ALTER TABLE orders.orders RENAME TO away`)
	pay, cancel := s.askToPay(no, user), s.cancelOrder(no, user)
	s.exec(`ALTER TABLE orders.away RENAME TO orders`)
	for what, a := range map[string]answer{"pay": pay, "cancel": cancel} {
		a.Want(t, what, http.StatusServiceUnavailable, "payment-unavailable")
	}
}

// In the last moment the bank no longer accepts a payment: that is the order's
// deadline and not a failure of the bank.
func startInTheLastMoment(t *testing.T, s *bundle) {
	no, user := s.one(100)
	s.bank.shut.Store(true)
	path := "/api/v1/orders/" + no.String() + "/payments"
	s.post(user, path, "").Want(t, "", http.StatusServiceUnavailable, "")
	s.bank.shut.Store(false)
	s.exec(`WITH o AS (UPDATE orders.orders SET pay_deadline = clock_timestamp() + interval '900 milliseconds' WHERE order_no = $1 RETURNING order_no, pay_deadline)
		UPDATE payments.payments p SET expires_at = o.pay_deadline FROM o WHERE p.order_no = o.order_no`, no)
	s.post(user, path, "").Want(t, "", http.StatusConflict, "order-not-payable")
	require.Equal(t, "payments stay open", read[int](s, `SELECT count(*) FROM payments.payments WHERE order_no = $1 AND status <> 'closed'`, no), 0)
}

// A payment that ended at the provider without our knowledge does not block the
// next one.
func startAfterUnreportedEnd(t *testing.T, s *bundle) {
	no, user := s.one(100)
	first, _ := s.startPayment(no, user)
	s.exec(`UPDATE payments.payments SET handoff = '{}' WHERE order_no = $1`, no) // as if our process had died before it received the answer
	_, err := s.client.Close(t.Context(), provider.Payment{No: first})
	require.NoError(t, err)
	second, _ := s.startPayment(no, user)
	require.Equal(t, "another payment is offered", second != first, true)

	no, user = s.one(100)
	_, url := s.startPayment(no, user)
	s.payAt(url, sandbox.Never)
	s.exec(`UPDATE payments.payments SET handoff = '{}' WHERE order_no = $1`, no)
	s.askToPay(no, user).Want(t, "", http.StatusConflict, "order-not-payable")
	s.orderIs(no, orderevent.StatusPaid)
	s.booksAreRight()
}

func anotherProviderClosesTheOlderPayment(t *testing.T, s *bundle) {
	both := s.instance(options{}, s.client, s.clientOf("bank2", s.bankAt))
	no, user := s.one(100)
	first, err := both.begin(t.Context(), no, user, way{Provider: "sandbox"})
	require.NoError(t, err)
	second, err := both.begin(t.Context(), no, user, way{Provider: "bank2"})
	if err != nil || second.PaymentNo == first.PaymentNo || second.Provider != "bank2" {
		t.Fatalf("%+v, %v", second, err)
	}
	st, err := s.client.Query(t.Context(), provider.Payment{No: first.PaymentNo})
	require.NoError(t, err)
	require.Equal(t, "the older payment at its bank", st.State, provider.Closed)
	a, _ := s.tryPost(0, first.Handoff.URL, `{}`)
	a.Want(t, "paying the older payment", http.StatusConflict, "")
	// And back to the first bank, after the second payment was captured without a
	// callback.
	s.payAt(second.Handoff.URL, sandbox.Never)
	if _, err := both.begin(t.Context(), no, user, way{Provider: "sandbox"}); err == nil {
		t.Error("a paid order got another payment")
	}
	s.orderIs(no, orderevent.StatusPaid)
	s.booksAreRight()
}

// slow is a provider that needs half an hour for a payment.
type slow struct{ provider.Provider }

func (p slow) Profile() provider.Profile {
	profile := p.Provider.Profile()
	profile.MinWindow = 30 * time.Minute
	return profile
}

func theFirstProviderWhoseWindowFits(t *testing.T, s *bundle) {
	both := s.instance(options{}, slow{s.client}, s.clientOf("bank2", s.bankAt))
	if window, canPay := both.Window(); window != s.client.Profile().MinWindow || !canPay {
		t.Errorf("shortest window %v, %t", window, canPay)
	}
	no, user := s.one(100) // the order's window is ten minutes
	p, err := both.begin(t.Context(), no, user, way{Method: "page"})
	if err != nil || p.Provider != "bank2" || p.Method != "page" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := both.begin(t.Context(), no, user, way{Provider: "sandbox"}); !errors.Is(err, order.ErrNotPayable) {
		t.Errorf("another provider, which needs longer: %v", err)
	}
	if again, err := both.begin(t.Context(), no, user, way{}); err != nil || again.PaymentNo != p.PaymentNo {
		t.Errorf("after a refused choice %s is not open any more, but %s: %v", p.PaymentNo, again.PaymentNo, err)
	}
	other, user := s.one(100)
	_, err = both.begin(t.Context(), other, user, way{Provider: "sandbox"})
	if refusal, ok := errors.AsType[*fault.Error](err); !ok || !refusal.Is(order.ErrNotPayable) || !strings.Contains(refusal.Detail[0], "least_seconds") {
		t.Errorf("a provider that needs longer: %v", err)
	}
}

// A shop without a provider returns that as the reason, and still accepts free
// orders.
func startWithoutAProvider(t *testing.T, s *bundle) {
	none := s.instance(options{})
	no, user := s.one(100)
	_, err := none.begin(t.Context(), no, user, way{})
	require.ErrorIs(t, err, errNoWay)
	no, user = s.one(0)
	p, err := none.begin(t.Context(), no, user, way{})
	require.NoError(t, err)
	require.Equal(t, "for nothing", p.Status, statusCaptured)
	// A payment that was started before the shop lost its provider stays unchanged.
	no, user = s.one(100)
	paymentNo, _ := s.startPayment(no, user)
	_, err = none.begin(t.Context(), no, user, way{})
	require.ErrorIs(t, err, ErrUnavailable)
	s.paymentIs(paymentNo, "created")
	s.booksAreRight()
}

func aFreeOrderIsPaidByAsking(t *testing.T, s *bundle) {
	no, user := s.one(0)
	s.bank.shut.Store(true) // no provider is needed
	a := s.askToPay(no, user).Want(t, "", http.StatusOK, "")
	require.Equal(t, "status, provider and page", []string{a.Text("status"), a.Text("provider"), a.Text("pay_url")}, []string{"captured", "free", ""})
	s.orderIs(no, orderevent.StatusPaid)
	require.Equal(t, "events", s.events(paymentevent.SubjectCaptured, no), 1)
	s.askToPay(no, user).Want(t, "again", http.StatusConflict, "")
	s.booksAreRight()
}

// keyed starts a payment under an Idempotency-Key.
func (s *bundle) keyed(user int64, path, key, body string) answer {
	s.t.Helper()
	a, err := s.tryPost(user, s.url+path, body, "Idempotency-Key", key)
	require.NoError(s.t, err)
	return a
}

// A shopper whose answer got lost repeats the request under its key.
func startUnderAKey(t *testing.T, s *bundle) {
	no, user := s.one(100)
	path := "/api/v1/orders/" + no.String() + "/payments"
	first := s.keyed(user, path, "k", "").Want(t, "the first", http.StatusOK, "")
	again := s.keyed(user, path, "k", `{"provider":"sandbox"}`).Want(t, "a repetition", http.StatusOK, "")
	require.Equal(t, "a repetition that names the same provider", again.Doc, first.Doc)
	other, _ := s.one(100)
	elsewhere := "/api/v1/orders/" + other.String() + "/payments"
	s.keyed(user, elsewhere, "k", "").Want(t, "another order under the key", http.StatusUnprocessableEntity, "idempotency-mismatch")
	open := s.keyed(user, path, "another", "").Want(t, "another key", http.StatusOK, "")
	require.Equal(t, "the open payment under another key", open.Text("payment_no"), first.Text("payment_no"))
	s.keyed(user, path, strings.Repeat("k", 256), "").Want(t, "a key of 256 bytes", http.StatusUnprocessableEntity, "")
	// Without a key, a payment that has ended is reported as ended; under its key the answer stays the
	// same.
	s.settlesAt(first.Text("pay_url"), no)
	s.post(user, path, "").Want(t, "paid, without the key", http.StatusConflict, "")
	require.Equal(t, "the answer under the key", s.keyed(user, path, "k", "").Want(t, "paid", http.StatusOK, "").Doc, first.Doc)
}
