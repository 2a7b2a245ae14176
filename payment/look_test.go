package payment

import (
	"context"
	"fmt"
	"net/http"

	"stampede/payment/internal/paymentdb"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// read scans one value.
func read[T any](s *bundle, sql string, args ...any) T {
	s.t.Helper()
	return pgtest.Read[T](s.t, s.db, sql, args...)
}

func (s *bundle) status(no ids.ID) string {
	return read[string](s, `SELECT status FROM orders.orders WHERE order_no = $1`, no)
}

// orderIs requires an order's status, paymentIs a payment's.
func (s *bundle) orderIs(no ids.ID, want string) {
	s.t.Helper()
	require.Equal(s.t, "order", s.status(no), want)
}

func (s *bundle) paymentIs(no ids.ID, want string) {
	s.t.Helper()
	require.Equal(s.t, "payment", s.paymentStatus(no), want)
}

// events counts the outbox rows of a subject that name an order.
func (s *bundle) events(subject string, no ids.ID) int {
	return read[int](s, `SELECT count(*) FROM platform.outbox WHERE subject = $1 AND position(convert_to($2, 'UTF8') IN payload) > 0`, subject, no.String())
}

// ledger counts the ledger rows of an order.
func (s *bundle) ledger(no ids.ID, kind string) int {
	return read[int](s, `SELECT count(*) FROM payments.ledger WHERE order_no = $1 AND kind = $2`, no, kind)
}

// refundOf is "reason status" of the order's refund, "" without one.
func (s *bundle) refundOf(no ids.ID) string {
	return read[string](s, `SELECT coalesce(max(reason || ' ' || status), '') FROM payments.refunds WHERE order_no = $1`, no)
}

// refundRequested waits until a refund of the order is requested.
func (s *bundle) refundRequested(no ids.ID, reason string) {
	s.t.Helper()
	s.until("the refund is requested", func() bool { return s.refundOf(no) == reason+" requested" })
}

// refundsDone processes refunds until those of the order have ended.
func (s *bundle) refundsDone(no ids.ID) {
	s.t.Helper()
	s.until("every refund ends", func() bool {
		s.round(s.refundDue)
		return read[int](s, `SELECT count(*) FROM payments.refunds WHERE status = 'requested' AND order_no = $1`, no) == 0
	})
}

// waiting waits until so many connections wait for a lock.
func (s *bundle) waiting(n int) {
	s.t.Helper()
	s.until("a lock is waited for", func() bool {
		return read[int](s, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == n
	})
}

// round makes one round of a worker.
func (s *bundle) round(do func(context.Context) (int, error)) {
	s.t.Helper()
	_, err := do(s.t.Context())
	require.NoError(s.t, err)
}

// callbacksLeft counts the bank's callbacks about a payment that are not
// acknowledged.
func (s *bundle) callbacksLeft(paymentNo ids.ID) int {
	return read[int](s, `SELECT count(*) FROM sandbox.callbacks WHERE status <> 'acknowledged' AND position(convert_to($1, 'UTF8') IN body) > 0`,
		paymentNo.String())
}

// paymentStatus is the status of a payment's row.
func (s *bundle) paymentStatus(no ids.ID) string {
	return read[string](s, `SELECT status FROM payments.payments WHERE payment_no = $1`, no)
}

// booksAreRight runs the module's own checks.
func (s *bundle) booksAreRight() {
	s.t.Helper()
	for _, c := range s.Checks() {
		found, err := c.Run(s.t.Context())
		require.NoError(s.t, err)
		for _, v := range found {
			s.t.Errorf("%s violated: %s: %s", c.ID, v.Subject, v.Detail)
		}
	}
}

// finds requires so many violations of a check, and returns them.
func (s *bundle) finds(check func(context.Context, paymentdb.DBTX) ([]proof.Violation, error), want int) []proof.Violation {
	s.t.Helper()
	found, err := check(s.t.Context(), s.db)
	require.NoError(s.t, err)
	if len(found) != want {
		s.t.Fatalf("violations %v, want %d", found, want)
	}
	return found
}

// unaccounted is how many units of the item are neither on sale, reserved, written
// off nor in a live order (I1).
func (s *bundle) unaccounted() int {
	return read[int](s, `SELECT total - available - backup - written_off - (SELECT coalesce(sum(quantity), 0) FROM orders.orders o
		WHERE o.item_id = s.item_id AND o.Status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed'))
		FROM inventory.stock s WHERE item_id = $1`, s.item)
}

// alarms counts the alarms of a code about a subject.
func (s *bundle) alarms(code, subject string) int {
	return read[int](s, `SELECT count(*) FROM platform.alarms WHERE code = $1 AND subject = $2`, code, subject)
}

// answer is the answer to a request.
type answer = httpxtest.Answer

// token is one that the server takes.
func (s *bundle) token(of auth.Principal) string {
	return httpxtest.Token(s.t, s.tokens, of)
}

// post sends JSON as a user; user 0 sends no token.
func (s *bundle) post(user int64, path, body string) answer {
	s.t.Helper()
	a, err := s.tryPost(user, s.url+path, body)
	require.NoError(s.t, err)
	return a
}

// get is post without a body.
func (s *bundle) get(user int64, path string) answer {
	s.t.Helper()
	a, err := s.try(http.MethodGet, user, s.url+path, "")
	require.NoError(s.t, err)
	return a
}

func (s *bundle) tryPost(user int64, url, body string, headers ...string) (answer, error) {
	return s.try(http.MethodPost, user, url, body, headers...)
}

func (s *bundle) try(method string, user int64, url, body string, headers ...string) (answer, error) {
	token := ""
	if user != 0 {
		token = s.token(auth.Principal{UserID: user, Role: auth.Shopper})
	}
	a, err := httpxtest.Try(context.Background(), http.DefaultClient, method, url, token, body, headers...)
	if err == nil && a.Doc == nil {
		err = fmt.Errorf("status %d, no JSON object: %q", a.Status, a.Raw)
	}
	return a, err
}

// askToPay is POST orders/{no}/payments, cancelOrder POST orders/{no}/cancel.
func (s *bundle) askToPay(no ids.ID, user int64) answer {
	s.t.Helper()
	return s.post(user, "/api/v1/orders/"+no.String()+"/payments", "")
}

func (s *bundle) cancelOrder(no ids.ID, user int64) answer {
	s.t.Helper()
	return s.post(user, "/api/v1/orders/"+no.String()+"/cancel", "")
}

// startPayment requests a payment and requires that there is one.
func (s *bundle) startPayment(no ids.ID, user int64) (paymentNo ids.ID, payURL string) {
	s.t.Helper()
	a := s.askToPay(no, user).Want(s.t, "start", http.StatusOK, "")
	require.Equal(s.t, "there is a page", a.Text("pay_url") != "", true)
	paymentNo, err := ids.Parse(a.Text("payment_no"))
	require.NoError(s.t, err)
	return paymentNo, a.Text("pay_url")
}
