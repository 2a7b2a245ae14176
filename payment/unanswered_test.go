package payment

import (
	"testing"

	"stampede/order/orderevent"
	"stampede/payment/sandbox"
	"stampede/platform/workshop/require"
)

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
		if _, err := s.orders.CloseClaimed(t.Context(), can, orderevent.ReasonTimeout); err != nil {
			t.Fatal(err)
		}
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
	if paid != 1 || late != 1 || s.available() != before {
		t.Errorf("%d orders got the backup, %d their money back; %d units available, want %d", paid, late, s.available(), before)
	}
	s.booksAreRight()
}
