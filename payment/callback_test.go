package payment

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

func TestCallbacks(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{}),
		misbehavingBank, anUnderpaidOrderCanBePaidAgain, forgedAndReplayedCallbacks,
		aCallbackThatFailsComesAgain, moneyThatIsNotOurs, aDoubtfulSumWaitsForTheProvider,
	)
}

// misbehavingBank: whatever the bank does, the order and the money end right,
// and the operator gets the alarm.
func misbehavingBank(t *testing.T, s *bundle) {
	for _, tt := range []struct {
		behaviour sandbox.Behaviour
		ask       bool   // the provider has to be queried before anything happens
		status    string // of the order
		refunded  int64
		alarm     string
	}{
		{sandbox.Normal, false, orderevent.StatusPaid, 0, ""},
		{sandbox.Duplicate, false, orderevent.StatusPaid, 0, ""},
		{sandbox.WrongAmount, false, orderevent.StatusPaid, 0, "payment-mismatch"},
		{sandbox.Underpaid, false, orderevent.StatusPending, 9899, "payment-mismatch"},
		{sandbox.Late, true, orderevent.StatusPaid, 0, ""},
		{sandbox.Never, true, orderevent.StatusPaid, 0, ""},
	} {
		t.Run(string(tt.behaviour), func(t *testing.T) {
			s := s.in(t)
			no, user := s.one(9900)
			paymentNo, url := s.startPayment(no, user)
			a, err := s.tryPost(0, url, `{"behaviour":"`+string(tt.behaviour)+`","delay_seconds":3600}`)
			require.NoError(t, err)
			a.Want(t, "pay", http.StatusOK, "")
			if tt.alarm != "" {
				s.until("the alarm", func() bool { return s.alarms(tt.alarm, "payment "+paymentNo.String()) == 1 })
			}
			if tt.ask {
				require.Equal(t, "order before the provider was queried", s.status(no), orderevent.StatusPending)
				s.exec(`UPDATE payments.payments SET next_query = now() WHERE order_no = $1`, no)
				s.round(s.queryDue)
			}
			s.until("the payment is captured", func() bool { return s.paymentStatus(paymentNo) == "captured" })
			require.Equal(t, "order", s.status(no), tt.status)
			s.refundsDone(no)
			back := read[int64](s, `SELECT coalesce(sum(amount), 0)::bigint FROM payments.ledger WHERE kind = 'refund' AND order_no = $1`, no)
			require.Equal(t, "refunded", back, tt.refunded)
			if tt.behaviour != sandbox.Late {
				// Whichever way we learned of it in the meantime, the bank need not repeat
				// its callback.
				s.until("the bank has no callbacks left", func() bool { return s.callbacksLeft(paymentNo) == 0 })
			}
			require.Equal(t, "there is a captured event", s.events(paymentevent.SubjectCaptured, no) == 1, tt.status == orderevent.StatusPaid)
			s.booksAreRight()
		})
	}
}

// After money in the wrong amount was refunded, the shopper can still pay.
func anUnderpaidOrderCanBePaidAgain(_ *testing.T, s *bundle) {
	no, user := s.one(100)
	first, url := s.startPayment(no, user)
	s.payAt(url, sandbox.Underpaid)
	s.until("the amount is found to differ", func() bool { return s.paymentStatus(first) == "captured" })
	s.pays(no, user)
	s.refundsDone(no)
	s.booksAreRight()
}

// firstCallback pays an order while callbacks are lost and returns the first.
func (s *bundle) firstCallback() (no ids.ID, cb recorded) {
	s.t.Helper()
	no, user := s.one(100)
	paymentNo, url := s.startPayment(no, user)
	s.door.lose.Store(true)
	s.payAt(url, sandbox.Normal)
	s.until("a callback arrives", func() bool {
		came := s.door.callbacks() // among repetitions of earlier ones
		i := slices.IndexFunc(came, func(c recorded) bool { return bytes.Contains(c.body, []byte(paymentNo.String())) })
		if i >= 0 {
			cb = came[i]
		}
		return i >= 0
	})
	return no, cb
}

// request is the callback as it arrives at a path.
func (c recorded) request(path string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(c.body))
	r.Header = c.header.Clone()
	return r
}

// deliver hands a callback to one instance and returns the answer's status.
func deliver(svc *Service, name string, h http.Header, body []byte) int {
	return answered(svc, name, recorded{header: h, body: body}).Status
}

func forgedAndReplayedCallbacks(t *testing.T, s *bundle) {
	no, cb := s.firstCallback()
	changed := func(f func(h http.Header, body []byte) []byte) recorded {
		c := recorded{header: cb.header.Clone(), body: slices.Clone(cb.body)}
		c.body = f(c.header, c.body)
		return c
	}
	for name, c := range map[string]recorded{
		"amount changed": changed(func(_ http.Header, b []byte) []byte {
			return bytes.Replace(b, []byte(`"amount":100`), []byte(`"amount":1`), 1)
		}),
		"no signature": changed(func(h http.Header, b []byte) []byte { h.Del(sandbox.HeaderSignature); return b }),
		"time changed": changed(func(h http.Header, b []byte) []byte { h.Set(sandbox.HeaderTimestamp, "1800000000"); return b }),
		"empty":        {header: cb.header, body: nil},
	} {
		require.Equal(t, name+": answered", deliver(s.Service, "sandbox", c.header, c.body), http.StatusUnauthorized)
	}
	require.Equal(t, "too long: answered", deliver(s.Service, "sandbox", cb.header, bytes.Repeat([]byte(" "), maxCallbackBytes+1)), http.StatusBadRequest)
	require.Equal(t, "unknown provider: answered", deliver(s.Service, "nobody", cb.header, cb.body), http.StatusNotFound)
	require.Equal(t, "the order after forgeries", s.status(no), orderevent.StatusPending)
	for range 3 { // the genuine one, and its replays within the window
		require.Equal(t, "genuine: answered", deliver(s.Service, "sandbox", cb.header, cb.body), http.StatusOK)
	}
	require.Equal(t, "ledger rows after replays", s.ledger(no, kindCapture), 1)
	s.booksAreRight()
}

// A failure on our side is not acknowledged, and none of its writes remain.
func aCallbackThatFailsComesAgain(t *testing.T, s *bundle) {
	no, user := s.one(100)
	_, url := s.startPayment(no, user)
	s.exec(`ALTER TABLE platform.outbox ADD CONSTRAINT broken CHECK (subject <> 'events.payment.captured') NOT VALID`)
	s.payAt(url, sandbox.Normal)
	had := len(s.door.callbacks())
	s.until("two attempts failed", func() bool { return len(s.door.callbacks()) >= had+2 })
	require.Equal(t, "the order after half a settlement", s.status(no), orderevent.StatusPending)
	require.Equal(t, "half a settlement: ledger rows", s.ledger(no, kindCapture), 0)
	s.exec(`ALTER TABLE platform.outbox DROP CONSTRAINT broken`)
	s.until("the order is paid", func() bool { return s.status(no) == orderevent.StatusPaid })
	s.booksAreRight()
}

func moneyThatIsNotOurs(t *testing.T, s *bundle) {
	no, cb := s.firstCallback()
	n, err := s.client.Parse(cb.header, cb.body)
	require.NoError(t, err)
	good := *n.Capture

	c := good
	c.Merchant = "shop-2"
	_, err = s.settle(t.Context(), "sandbox", c, told)
	require.ErrorIs(t, err, provider.ErrForeign)
	require.Equal(t, "alarms about another merchant", s.alarms("payment-foreign-merchant", "sandbox"), 1)
	c = good
	c.PaymentNo = ids.NewFor(1)
	_, err = s.settle(t.Context(), "sandbox", c, asked)
	require.ErrorIs(t, err, provider.ErrUnknown)
	require.Equal(t, "alarms about an unknown number", s.alarms("payment-unknown", "sandbox payment "+c.PaymentNo.String()), 1)
	_, err = s.instance(options{}, s.client, s.clientOf("bank2", s.bankAt)).settle(t.Context(), "bank2", good, told)
	require.ErrorIs(t, err, provider.ErrUnknown) // another provider's number
	require.Equal(t, "ledger rows", s.ledger(no, kindCapture), 0)
	require.Equal(t, "the good one", deliver(s.Service, "sandbox", cb.header, cb.body), http.StatusOK)
	// The same transaction number under another payment.
	no2, user2 := s.one(100)
	second, _ := s.startPayment(no2, user2)
	c = good
	c.PaymentNo = second
	_, err = s.settle(t.Context(), "sandbox", c, asked)
	require.ErrorIs(t, err, provider.ErrReused)
	require.Equal(t, "alarms about a transaction used twice", s.alarms("payment-transaction-reused", "sandbox transaction "+c.Transaction), 1)
	s.orderIs(no, orderevent.StatusPaid)
	s.orderIs(no2, orderevent.StatusPending)
	back := provider.RefundStatus{State: provider.Succeeded, Merchant: merchantNo, RefundNo: ids.NewFor(1), PaymentNo: second, Transaction: "x", Amount: 1, Currency: "CNY", At: time.Now()}
	require.ErrorIs(t, s.settleRefund(t.Context(), "sandbox", back, told), provider.ErrUnknown)
	back.Merchant = "shop-2"
	require.ErrorIs(t, s.settleRefund(t.Context(), "sandbox", back, told), provider.ErrForeign)
	s.booksAreRight()
}

// While the provider cannot be queried, a callback with the wrong amount is
// neither believed nor acknowledged.
func aDoubtfulSumWaitsForTheProvider(t *testing.T, s *bundle) {
	no, cb := s.firstCallback()
	n, err := s.client.Parse(cb.header, cb.body)
	require.NoError(t, err)
	n.Capture.Amount++
	s.bank.shut.Store(true)
	_, err = s.settle(t.Context(), "sandbox", *n.Capture, told)
	require.ErrorIs(t, err, provider.ErrMismatch)
	alarms := s.alarms("payment-mismatch", "payment "+n.Capture.PaymentNo.String())
	require.Equal(t, "ledger rows and alarms", [...]int{s.ledger(no, kindCapture), alarms}, [...]int{0, 1})
	s.orderIs(no, orderevent.StatusPending)
	s.bank.shut.Store(false)
	negative := *n.Capture
	negative.Amount = -negative.Amount
	_, err = s.settle(t.Context(), "sandbox", negative, asked)
	require.ErrorIs(t, err, provider.ErrMismatch)                 // money that moves backwards
	for _, want := range []string{outcomePaid, outcomeRepeated} { // once the bank answers
		got, err := s.settle(t.Context(), "sandbox", *n.Capture, told)
		require.NoError(t, err)
		require.Equal(t, "outcome", got, want)
	}
	s.booksAreRight()
}
