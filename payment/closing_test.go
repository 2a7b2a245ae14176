package payment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/auth"
	"stampede/platform/ids"
)

func TestClosing(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{}), []subtest{
		{"cancel", cancel},
		{"cancel by one who leaves", cancelByOneWhoLeaves},
		{"cancel without the bank", cancelWithoutTheBank},
		{"closing finds the money", closingFindsTheMoney},
		{"close open sorts orders", closeOpenSortsOrders},
		{"queries", queries},
		{"provider no longer configured", providerNoLongerConfigured},
	})
}

func (s *shop) cancelOrder(no ids.ID, user int64) answer {
	s.t.Helper()
	return s.post(user, "/api/v1/orders/"+no.String()+"/cancel", "")
}

func (s *shop) available() int {
	return read[int](s, `SELECT available FROM inventory.stock WHERE item_id = $1`, s.item)
}

func cancel(t *testing.T, s *shop) {
	no, user := s.one(100)
	if a := s.post(user+1, "/api/v1/orders/"+no.String()+"/cancel", ""); a.status != http.StatusNotFound {
		t.Errorf("another shopper: %d", a.status)
	}
	_, url := s.startPayment(no, user)
	before := s.available()
	a := s.cancelOrder(no, user)
	if a.status != http.StatusOK || a.text("status") != "closed" || a.text("reason") != "canceled" {
		t.Fatalf("%d %v", a.status, a.body)
	}
	if got := s.available(); got != before+1 {
		t.Errorf("%d units available, were %d", got, before)
	}
	if p, err := s.tryPost(0, url, `{}`); err != nil || p.status != http.StatusConflict {
		t.Errorf("a canceled order was paid: %+v, %v", p, err)
	}
	if a := s.cancelOrder(no, user); a.status != http.StatusConflict || a.text("code") != "order-not-cancelable" {
		t.Errorf("again: %d %v", a.status, a.body)
	}
	// Without a payment no provider is needed.
	no, user = s.one(100)
	s.bank.shut.Store(true)
	if a := s.cancelOrder(no, user); a.status != http.StatusOK {
		t.Errorf("without a payment: %d %v", a.status, a.body)
	}
	s.booksAreRight()
}

// The shopper leaves while the claim is under way: the order is closed all the
// same, and not left claimed.
func cancelByOneWhoLeaves(t *testing.T, s *shop) {
	no, user := s.one(100)
	before := s.available()
	busy, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Rollback(context.Background()) }()
	if _, err := busy.Exec(t.Context(), `SELECT FROM orders.orders WHERE order_no = $1 FOR UPDATE`, no); err != nil {
		t.Fatal(err)
	}
	request, leave := context.WithCancel(auth.Into(t.Context(), auth.Principal{UserID: user}))
	ended := make(chan error, 1)
	go func() {
		_, err := s.cancel(request, &cancelInput{No: no.String()})
		ended <- err
	}()
	s.until("the claim waits for the row", func() bool {
		return read[int](s, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%closing_until%'`) > 0
	})
	leave()
	if err := busy.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("cancel: %v", err)
	}
	if got := s.status(no); got != orderevent.StatusClosed {
		t.Errorf("the order is %s", got)
	}
	if got := s.available(); got != before+1 {
		t.Errorf("%d units available, were %d", got, before)
	}
	s.booksAreRight()
}

func cancelWithoutTheBank(t *testing.T, s *shop) {
	no, user := s.one(100)
	_, url := s.startPayment(no, user)
	s.bank.shut.Store(true)
	if a := s.cancelOrder(no, user); a.status != http.StatusServiceUnavailable || a.text("code") != "payment-unavailable" {
		t.Fatalf("%d %v", a.status, a.body)
	}
	if got := s.status(no); got != orderevent.StatusPending {
		t.Fatalf("closed without knowing about the money: %s", got)
	}
	s.bank.shut.Store(false)
	s.payAt(url, sandbox.Normal) // the money that was feared
	s.until("the order is paid though claimed", func() bool { return s.status(no) == orderevent.StatusPaid })
	if a := s.cancelOrder(no, user); a.status != http.StatusConflict || a.text("code") != "order-not-cancelable" {
		t.Errorf("canceling a paid order: %d %v", a.status, a.body)
	}
	s.booksAreRight()
}

// The money was there first, and only closing finds out.
func closingFindsTheMoney(t *testing.T, s *shop) {
	no, user := s.one(100)
	_, url := s.startPayment(no, user)
	s.payAt(url, sandbox.Never)
	if a := s.cancelOrder(no, user); a.status != http.StatusConflict || a.text("code") != "order-not-cancelable" || a.text("status") == "" && a.body["status"] == nil {
		t.Errorf("%d %v", a.status, a.body)
	}
	if got := s.status(no); got != orderevent.StatusPaid {
		t.Errorf("order is %s", got)
	}
	// A sum that does not fit goes back and does not keep the order.
	no, user = s.one(100)
	_, url = s.startPayment(no, user)
	s.payAt(url, sandbox.Underpaid)
	if a := s.cancelOrder(no, user); a.status != http.StatusOK {
		t.Errorf("underpaid: %d %v", a.status, a.body)
	}
	s.refundsDone(no)
	s.booksAreRight()
}

func closeOpenSortsOrders(t *testing.T, s *shop) {
	nos, users := s.buy(4, 100)
	_, _ = s.startPayment(nos[1], users[1])
	_, paid := s.startPayment(nos[2], users[2])
	s.payAt(paid, sandbox.Never)
	gone := s.instance(options{}, s.client, s.clientOf("bank2", "http://127.0.0.1:1"))
	if _, err := gone.begin(t.Context(), nos[3], users[3], "bank2"); err == nil {
		t.Fatal("a bank that is not there took a payment")
	}
	groups, err := gone.OpenOf(t.Context(), nos)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(groups, func(a, b []ids.ID) int { return len(b) - len(a) })
	if len(groups) != 2 || !slices.Equal(groups[0], nos[1:3]) || !slices.Equal(groups[1], nos[3:]) {
		t.Errorf("open payments of %v, want those of %v by provider", groups, nos)
	}
	closable, err := gone.CloseOpen(t.Context(), nos)
	if err == nil {
		t.Error("a silent bank is no error")
	}
	if want := nos[:2]; !slices.Equal(closable, want) {
		t.Errorf("closable %v, want %v", closable, want)
	}
	if got := s.status(nos[2]); got != orderevent.StatusPaid {
		t.Errorf("the captured one is %s", got)
	}
	s.booksAreRight()
}

func queries(t *testing.T, s *shop) {
	ask := func() {
		t.Helper()
		if _, err := s.queryDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Open: nothing changes, and the next question comes later.
	no, user := s.one(100)
	open, _ := s.startPayment(no, user)
	s.exec(`UPDATE payments.payments SET queries = 10, next_query = now() WHERE payment_no = $1`, open)
	ask()
	if got := s.paymentStatus(open); got != "created" {
		t.Errorf("an open payment became %s", got)
	}
	if wait := read[float64](s, `SELECT extract(epoch FROM next_query - now())::float8 FROM payments.payments WHERE payment_no = $1`, open); wait < 0.1 || wait > 1.024 { // 2^10 ms after it was asked
		t.Errorf("asked again after %v s", wait)
	}
	// An order that does not wait for it any more: closed.
	s.exec(`UPDATE orders.orders SET status = 'closed' WHERE order_no = $1`, no)
	s.exec(`UPDATE payments.payments SET next_query = now() WHERE payment_no = $1`, open)
	ask()
	if got := s.paymentStatus(open); got != "closed" {
		t.Errorf("the payment of a closed order is %s", got)
	}
	if st, err := s.client.Query(t.Context(), open); err != nil || st.State != provider.Closed {
		t.Errorf("at the bank it is %s, %v", st.State, err)
	}
	// Expired, never created over there: closed.
	no, user = s.one(100)
	s.bank.shut.Store(true)
	if a := s.post(user, "/api/v1/orders/"+no.String()+"/payments", ""); a.status != http.StatusServiceUnavailable {
		t.Fatal(a)
	}
	s.bank.shut.Store(false)
	missing := read[ids.ID](s, `SELECT payment_no FROM payments.payments WHERE order_no = $1`, no)
	s.exec(`UPDATE payments.payments SET next_query = now() WHERE payment_no = $1`, missing)
	ask()
	if got := s.paymentStatus(missing); got != "created" {
		t.Errorf("a payment that may still be created became %s", got)
	}
	s.exec(`UPDATE payments.payments SET next_query = now(), expires_at = now() - interval '1 second' WHERE payment_no = $1`, missing)
	ask()
	if got := s.paymentStatus(missing); got != "closed" {
		t.Errorf("expired: %s", got)
	}
	s.booksAreRight()
}

func TestTheWorkersRun(t *testing.T) {
	t.Parallel()
	s := setup(t, options{pay: func(c *Config) { c.Poll = 10 * time.Millisecond }})
	for _, w := range s.Workers() {
		done := make(chan error, 1)
		ctx := t.Context()
		go func() { done <- w.Run(ctx) }()
		t.Cleanup(func() {
			if err := <-done; err != nil {
				t.Errorf("%s: %v", w.Name, err)
			}
		})
	}
	no, user := s.one(100)
	_, url := s.startPayment(no, user)
	s.payAt(url, sandbox.Never)
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

// TestPayAgainstExpire lets 500 shoppers pay in the moment in which their
// orders expire: each order has one winner, and money and stock follow it.
func TestPayAgainstExpire(t *testing.T) {
	t.Parallel()
	const races, atOnce = 500, 50
	s := setup(t, options{})
	total := s.available()
	paid, closed := 0, 0
	for range races / atOnce {
		nos, users := s.buy(atOnce, 100)
		urls := make([]string, atOnce)
		var wg sync.WaitGroup
		for i := range nos {
			wg.Go(func() {
				p, err := s.begin(t.Context(), nos[i], users[i], "sandbox")
				if err != nil {
					t.Errorf("start: %v", err)
				}
				urls[i] = p.PayUrl
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		// Ours expires while the bank's page is still open: the closing decides.
		s.exec(`UPDATE orders.orders SET pay_deadline = now() WHERE order_no = ANY($1)`, nos)
		took := make([]bool, atOnce)
		wg.Go(func() {
			due, err := s.orders.ClaimDue(t.Context(), atOnce)
			if err != nil {
				t.Errorf("claim: %v", err)
			}
			closable, err := s.CloseOpen(t.Context(), due)
			if err != nil {
				t.Errorf("close: %v", err)
			}
			if _, err := s.orders.CloseClaimed(t.Context(), closable, orderevent.ReasonTimeout); err != nil {
				t.Errorf("close orders: %v", err)
			}
		})
		for i := range urls {
			wg.Go(func() {
				<-time.After(rand.N(40 * time.Millisecond)) // spread over the closing
				a, err := s.tryPost(0, urls[i], fmt.Sprintf(`{"behaviour":%q}`, [...]sandbox.Behaviour{sandbox.Normal, sandbox.Duplicate, sandbox.Never}[i%3]))
				if err != nil {
					t.Errorf("pay: %v", err)
				}
				took[i] = a.status == http.StatusOK
			})
		}
		wg.Wait()
		for i, no := range nos {
			if took[i] {
				paid++
				s.until("money that was taken pays its order", func() bool {
					if _, err := s.queryDue(t.Context()); err != nil {
						t.Fatal(err)
					}
					return s.status(no) == orderevent.StatusPaid
				})
			} else {
				closed++
				if got := s.status(no); got != orderevent.StatusClosed {
					t.Fatalf("nobody paid and the order is %s", got)
				}
			}
		}
	}
	t.Logf("%d paid, %d expired", paid, closed)
	if paid == 0 || closed == 0 {
		t.Errorf("no race: %d paid, %d expired", paid, closed)
	}
	if got, want := s.available(), total-paid; got != want {
		t.Errorf("%d units available after %d of %d were sold", got, paid, total)
	}
	if got := read[int64](s, `SELECT sum(amount)::bigint FROM payments.ledger`); got != int64(paid)*100 {
		t.Errorf("the ledger holds %d for %d paid orders of 100", got, paid)
	}
	if got := read[int](s, `SELECT count(*) FROM payments.refunds`); got != 0 {
		t.Errorf("%d refunds: some order had two winners", got)
	}
	if got := read[int](s, `SELECT count(*) FROM sandbox.payments WHERE status = 'captured'`); got != paid {
		t.Errorf("the bank took money %d times, %d orders are paid", got, paid)
	}
	s.booksAreRight()
}
