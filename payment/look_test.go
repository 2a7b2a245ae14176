package payment

import (
	"context"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// read scans one value.
func read[T any](s *bundle, sql string, args ...any) T {
	s.t.Helper()
	var v T
	require.NoError(s.t, s.db.QueryRow(s.t.Context(), sql, args...).Scan(&v))
	return v
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

// locked runs a statement that locks something, until release or the end of the test.
func (s *bundle) locked(sql string, args ...any) (release func()) {
	s.t.Helper()
	tx, err := s.db.Begin(s.t.Context())
	require.NoError(s.t, err)
	release = func() { _ = tx.Rollback(context.WithoutCancel(s.t.Context())) }
	s.t.Cleanup(release)
	_, err = tx.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
	return release
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

// unaccounted is how many units of the item are neither on sale, reserved, written
// off nor in a live order (I1).
func (s *bundle) unaccounted() int {
	return read[int](s, `SELECT total - available - backup - written_off - (SELECT coalesce(sum(quantity), 0) FROM orders.orders o
		WHERE o.item_id = s.item_id AND o.status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed'))
		FROM inventory.stock s WHERE item_id = $1`, s.item)
}

// alarms counts the alarms of a code about a subject.
func (s *bundle) alarms(code, subject string) int {
	return read[int](s, `SELECT count(*) FROM platform.alarms WHERE code = $1 AND subject = $2`, code, subject)
}
