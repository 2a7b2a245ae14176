package payment

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"stampede/order/orderevent"
	"stampede/payment/provider"
	"stampede/payment/refund"
	"stampede/payment/sandbox"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// TestAnyCourseOfEvents is the model of money. It runs random courses of events
// on an order, with a bank that loses calls, answers and callbacks, and compares
// the bank's own books with ours at the end: apart from refunds that it failed,
// the bank keeps exactly what a paid order costs less what was asked back of it,
// and nothing for any other. Late money takes the backup while there is one, every
// change of the order is in its history, and no unit is lost (I1, I4, I5).
func TestAnyCourseOfEvents(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	rapid.Check(t, func(rt *rapid.T) {
		const price = 100
		no, user := s.one(price)
		backup := rapid.IntRange(0, 1).Draw(rt, "backup")
		s.exec(`UPDATE inventory.stock SET total = total - backup + $1, backup = $1`, backup)
		var urls []string
		end := func(reason string) {
			closable, _ := s.CloseOpen(t.Context(), []ids.ID{no}) // the bank may be down
			_, err := s.orders.CloseClaimed(t.Context(), closable, reason)
			require.NoError(rt, err)
		}
		start := func() (url string) {
			p, err := s.begin(t.Context(), no, user, way{Provider: "sandbox"})
			if err == nil {
				url = p.Handoff.URL
				urls = append(urls, url)
			}
			return url
		}
		pay := func(url string, behaviours ...sandbox.Behaviour) {
			how := rapid.SampledFrom(behaviours).Draw(rt, "behaviour")
			_, _ = s.tryPost(0, url, `{"behaviour":"`+string(how)+`"}`) // a closed one refuses
		}
		forget := func() {
			s.exec(`UPDATE payments.payments SET status = 'closed', version = version + 1 WHERE order_no = $1 AND status = 'created'`, no)
		}
		cancel := func() {
			if _, err := s.orders.Claim(t.Context(), no, user); err == nil {
				end(orderevent.ReasonCanceled)
			}
		}
		// What needs several steps in a row would come up in few courses.
		switch rapid.SampledFrom([]string{"nothing", "paid", "paid after a close that the bank does not honour", "paid twice"}).Draw(rt, "so far") {
		case "paid":
			pay(start(), sandbox.Normal, sandbox.RefundFails)
		case "paid after a close that the bank does not honour":
			url := start()
			forget()
			cancel()
			pay(url, sandbox.Normal, sandbox.Duplicate, sandbox.RefundFails)
		case "paid twice":
			first := start()
			forget()
			pay(start(), sandbox.Normal, sandbox.Never)
			pay(first, sandbox.Normal)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(*rapid.T) { start() },
			"pay": func(rt *rapid.T) {
				if len(urls) == 0 {
					rt.Skip("nothing to pay")
				}
				pay(rapid.SampledFrom(urls).Draw(rt, "page"), sandbox.Normal, sandbox.Duplicate, sandbox.WrongAmount, sandbox.Underpaid, sandbox.Never, sandbox.RefundFails)
			},
			"cancel": func(*rapid.T) { cancel() },
			"cancel, and the process dies after its claim": func(*rapid.T) {
				_, _ = s.orders.Claim(t.Context(), no, user) // another claim may be in force
			},
			"expire": func(*rapid.T) {
				s.exec(`UPDATE orders.orders SET pay_deadline = now() WHERE order_no = $1`, no)
				if due, err := s.orders.ClaimDue(t.Context(), 10); err == nil && len(due) > 0 {
					end(orderevent.ReasonTimeout)
				}
			},
			"claim lapses": func(*rapid.T) {
				s.exec(`UPDATE orders.orders SET closing_until = NULL WHERE order_no = $1`, no)
			},
			"our row is closed, the bank's is not": func(*rapid.T) { forget() },
			"ask": func(*rapid.T) {
				s.exec(`UPDATE payments.payments SET next_query = now() WHERE order_no = $1`, no)
				s.round(s.queryDue)
			},
			"an operator asks for money back": func(rt *rapid.T) {
				_, err := s.Refunds.Request(t.Context(), ids.New().String(), refund.Request{
					OrderNo: no, Amount: allIfZero(rapid.SampledFrom([]int64{0, 1, 60}).Draw(rt, "amount")), Reason: refund.ByOperator, By: firstOperator,
				})
				if _, refused := errors.AsType[*fault.Error](err); err != nil && !refused {
					rt.Fatal(err)
				}
			},
			"refund":     func(*rapid.T) { _, _ = s.refundDue(t.Context()) },
			"bank down":  func(*rapid.T) { s.bank.shut.Store(true) },
			"bank mute":  func(*rapid.T) { s.bank.mute.Store(true) },
			"bank up":    func(*rapid.T) { s.bank.shut.Store(false); s.bank.mute.Store(false) },
			"calls lost": func(*rapid.T) { s.door.lose.Store(true) },
			"calls come": func(*rapid.T) { s.door.lose.Store(false) },
		})
		s.bank.shut.Store(false)
		s.bank.mute.Store(false)
		s.door.lose.Store(false)
		s.settleEverything(no)
		kept := read[int64](s, `SELECT coalesce(sum(b.captured_amount - b.refunded), 0)::bigint
			FROM sandbox.payments b JOIN payments.payments p ON b.payment_no = replace(p.payment_no::text, '-', '') WHERE p.order_no = $1`, no)
		status := s.status(no)
		sum := func(which string) int64 {
			return read[int64](s, `SELECT coalesce(sum(amount), 0)::bigint FROM payments.refunds WHERE order_no = $1 AND `+which, no)
		}
		asked, failed := sum(`reason = 'operator'`), sum(`status = 'failed'`)
		paid, want := int64(0), status
		if status != orderevent.StatusPending && status != orderevent.StatusClosed {
			paid, want = price, orderevent.StatusPaid
		}
		if asked == price {
			want = orderevent.StatusRefunded
			if sum(`reason = 'operator' AND status = 'failed'`) > 0 {
				want = orderevent.StatusRefundFailed
			}
		}
		if kept != paid-asked+failed || status != want {
			rt.Fatalf("the bank keeps %d for an order that is %s, of which %d were asked back and %d failed to go back", kept, status, asked, failed)
		}
		late := read[int](s, `SELECT count(*) FROM payments.ledger WHERE order_no = $1 AND kind = 'capture' AND amount = $2`, no, price)
		if status == orderevent.StatusClosed && late > 0 && backup > 0 {
			rt.Fatal("late money went back although the backup has a unit")
		}
		lines := read[int](s, `SELECT version - 1 - (SELECT count(*) FROM orders.history h WHERE h.order_no = o.order_no)
			FROM orders.orders o WHERE order_no = $1`, no)
		require.Equal(rt, "changes of the order that are not in its history", lines, 0)
		require.Equal(rt, "units that are not accounted for", s.unaccounted(), 0)
		s.booksNameFailedRefundsOnly(rt)
	})
}

// booksNameFailedRefundsOnly runs the module's checks: they find each refund that
// failed permanently (I5), and nothing else.
func (s *bundle) booksNameFailedRefundsOnly(rt *rapid.T) {
	found := 0
	for _, c := range s.Checks() {
		violations, err := c.Run(s.t.Context())
		require.NoError(rt, err)
		for _, v := range violations {
			if found++; c.ID != "I5" || !strings.Contains(v.Detail, "failed") {
				rt.Fatalf("%s violated: %s: %s", c.ID, v.Subject, v.Detail)
			}
		}
	}
	failed := read[int](s, `SELECT count(*) FROM payments.refunds WHERE status = 'failed'`)
	require.Equal(rt, "refunds that failed, of which a check reports no more", found, min(failed, maxViolations))
}

// settleEverything waits until the bank and we agree on everything about an
// order: payments queried, refunds ended. A capture of a payment that we had
// closed is reported by its callback alone; if that was lost, the test reads
// the bank's books, as an operator reads a statement.
func (s *bundle) settleEverything(no ids.ID) {
	s.t.Helper()
	s.until("all is quiet", func() bool {
		s.exec(`UPDATE payments.payments SET next_query = now() WHERE order_no = $1`, no)
		s.round(s.queryDue)
		unheard, err := s.db.Query(s.t.Context(), `SELECT p.payment_no FROM payments.payments p
			JOIN sandbox.payments b ON b.payment_no = replace(p.payment_no::text, '-', '')
			WHERE p.order_no = $1 AND b.Status = 'captured' AND p.Status = 'closed'`, no)
		require.NoError(s.t, err)
		nos, err := pgx.CollectRows(unheard, pgx.RowTo[ids.ID])
		require.NoError(s.t, err)
		for _, no := range nos {
			st, err := s.client.Query(s.t.Context(), provider.Payment{No: no})
			require.NoError(s.t, err)
			_, err = s.settle(s.t.Context(), "sandbox", st.Capture, asked)
			require.NoError(s.t, err)
		}
		s.round(s.refundDue)
		return read[bool](s, `SELECT
			NOT EXISTS (SELECT FROM payments.refunds WHERE order_no = $1 AND status = 'requested') AND
			NOT EXISTS (SELECT FROM payments.payments p JOIN sandbox.payments b ON b.payment_no = replace(p.payment_no::text, '-', '')
				WHERE p.order_no = $1 AND b.Status = 'captured' AND p.Status <> 'captured')`, no)
	})
}
