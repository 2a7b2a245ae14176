package payment

import (
	"net/http"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
)

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
	if st, err := s.client.Query(t.Context(), provider.Payment{No: open}); err != nil || st.State != provider.Closed {
		t.Errorf("at the bank it is %s, %v", st.State, err)
	}
	// Expired, never created at the bank: closed.
	no, user = s.one(100)
	s.bank.shut.Store(true)
	if a := s.askToPay(no, user); a.status != http.StatusServiceUnavailable {
		t.Fatal(a)
	}
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
		s.runs(w.Run)
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
	s.until("late money goes back", func() bool {
		return s.refundOf(no) == "late succeeded"
	})
	s.booksAreRight()
}
