package payment

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/payment/sandbox"
	"stampede/platform/workshop/modeltest"
)

// TestPayAgainstExpire lets shoppers, 500 in make long, pay at the moment their
// orders expire: each order has one winner, and money and stock match it.
func TestPayAgainstExpire(t *testing.T) {
	t.Parallel()
	const atOnce = 50
	s := setup(t, options{})
	total := s.available()
	paid, closed := 0, 0
	spread := 40 * time.Millisecond // over the closing
	for round := 0; round < modeltest.Times(2, 10) || round < 10 && (paid == 0 || closed == 0); round++ {
		if round > 0 && closed == 0 {
			spread *= 2 // a busy machine closes later
		}
		nos, users := s.buy(atOnce, 100)
		urls := make([]string, atOnce)
		var wg sync.WaitGroup
		for i := range nos {
			wg.Go(func() {
				p, err := s.begin(t.Context(), nos[i], users[i], way{Provider: "sandbox"})
				if err != nil {
					t.Errorf("start: %v", err)
				}
				urls[i] = p.Handoff.URL
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		// Our order expires while the bank's page is still open: the closing decides.
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
				<-time.After(rand.N(spread))
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
				s.until("captured money pays its order", func() bool {
					if _, err := s.queryDue(t.Context()); err != nil {
						t.Fatal(err)
					}
					return s.status(no) == orderevent.StatusPaid
				})
			} else {
				closed++
				if got := s.status(no); got != orderevent.StatusClosed {
					t.Fatalf("the shopper has not paid and the order is %s", got)
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
