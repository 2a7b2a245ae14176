package payment

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/payment/internal/paymentdb"
	"stampede/payment/sandbox"
	"stampede/payment/statement"
	"stampede/platform/base/ids"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// TestPlantedViolations plants each kind of violation and requires that the
// check reports it, and that it reports nothing before.
func TestPlantedViolations(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	no, _ := s.paidFor(100, sandbox.Normal)
	paymentNo := read[ids.ID](s, `SELECT payment_no FROM payments.payments WHERE order_no = $1`, no)
	s.booksAreRight()
	const ledger = `INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, refund_no, amount, currency, at) `
	const refund = `INSERT INTO payments.refunds (bucket, refund_no, payment_no, order_no, user_id, provider, capture_txn, amount, currency, reason, status, created_at)
		SELECT 0, $3, $2, $1, 1, 'sandbox', 'x', 100, 'CNY', 'late', `
	const asked = `INSERT INTO payments.refunds (bucket, refund_no, payment_no, order_no, user_id, provider, capture_txn, currency, reason, units, amount, status, receipt, settled_by)
		SELECT bucket, $3, payment_no, order_no, user_id, provider, provider_txn, 'CNY', 'operator', 'return', `
	shop, err := time.LoadLocation("Asia/Shanghai")
	require.NoError(t, err)
	afterItsMidnight := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -4).Add(16*time.Hour + 5*time.Minute) // five past of the next day there
	for _, tt := range []struct {
		name, check string
		plant       string // $1 order, $2 payment, $3 a new number
		says        string
	}{
		{"money without an order that owes it", "I4", ledger + `SELECT 'sandbox', 'capture', $3::text, $2, $1, NULL, 100, 'CNY', now()`, "the order says CNY 1.00, the ledger has CNY 2.00"},
		{"an order paid without money", "I4", `UPDATE orders.orders SET unit_price = 150 WHERE order_no = $1 AND $2::uuid <> $3::uuid`, "the order says CNY 1.50, the ledger has CNY 1.00"},
		{"an order that names another payment", "I4", `UPDATE orders.orders SET provider_txn = 'x' WHERE order_no = $1 AND $2::uuid <> $3::uuid`, "is not the capture that paid it"},
		{"an order paid by no payment", "I4", `UPDATE orders.orders SET payment_no = NULL WHERE order_no = $1 AND $2::uuid <> $3::uuid`, "is not the capture that paid it"},
		{"freight that was not paid", "I4", `UPDATE orders.orders SET freight = 8 WHERE order_no = $1 AND $2::uuid <> $3::uuid`, "the order says CNY 1.08, the ledger has CNY 1.00"},
		{"a discount that was paid", "I4", `UPDATE orders.orders SET discount = 8 WHERE order_no = $1 AND $2::uuid <> $3::uuid`, "the order says CNY 0.92, the ledger has CNY 1.00"},
		{"money in another currency", "I4", `UPDATE orders.orders SET currency = 'USD' WHERE order_no = $1 AND $2::uuid <> $3::uuid`, "the order says USD 1.00, the ledger has USD 0.00"},
		{"a refund of an order that stays paid", "I4", refund + `'requested', now()`, "of which CNY 1.00 is to be refunded"},
		{"a captured payment without its money", "I4", `INSERT INTO payments.payments (bucket, payment_no, order_no, user_id, provider, provider_txn, amount, currency, status, expires_at)
			SELECT 0, $3, $1, 1, 'sandbox', 'y', 1, 'CNY', 'captured', now() FROM payments.payments WHERE payment_no = $2`, "the ledger has no capture for it"},
		{"money of a payment that is not captured", "I4", `UPDATE payments.payments SET status = 'closed' WHERE order_no = $1 AND payment_no = $2 AND payment_no <> $3`, "it is not captured"},
		{"a ledger row of another provider", "I4", `UPDATE payments.payments SET provider = 'bank2' WHERE order_no = $1 AND payment_no = $2 AND payment_no <> $3`, "names another provider"},
		{"a refund that succeeded without moving", "I4", refund + `'succeeded', now()`, "0 ledger rows"},
		{"a refund that moved twice", "I4", `WITH r AS (` + refund + `'succeeded', now()) ` + ledger +
			`SELECT 'sandbox', 'refund', n::text, $2, $1, $3, 100, 'CNY', now() FROM generate_series(1, 2) n`, "2 ledger rows"},
		{"a refund that was taken back and stays succeeded", "I4", `WITH r AS (` + refund + `'succeeded', now()) ` + ledger +
			`SELECT 'sandbox', k, 'z', $2, $1, $3, 100, 'CNY', now() FROM unnest(ARRAY['refund', 'refund_reversal']) k`, "0 ledger rows"},
		{"a reversal of no refund", "I4", ledger + `SELECT 'sandbox', 'refund_reversal', 'z', $2, $1, $3, 100, 'CNY', now()`, "-1 ledger rows"},
		{"money of no chargeback", "I4", ledger + `SELECT 'sandbox', 'chargeback', $3::text, $2, $1, NULL, 100, 'CNY', now()`, "it is unknown over CNY 0.00, and the ledger says that CNY 1.00 is withdrawn"},
		{"a chargeback that came back before it was taken", "I4", `WITH c AS (INSERT INTO payments.chargebacks (provider, chargeback_no, payment_no, order_no, amount, currency, reason, status)
			SELECT 'sandbox', $3::text, $2, $1, 100, 'CNY', '', 'won') ` + ledger + `SELECT 'sandbox', 'chargeback_reversal', $3::text, $2, $1, NULL, 100, 'CNY', now()`, "-1.00 is withdrawn"},
		{"a chargeback that is lost without money", "I4", `INSERT INTO payments.chargebacks (provider, chargeback_no, payment_no, order_no, amount, currency, reason, status, updated_at)
			SELECT 'sandbox', $3::uuid::text, $2, $1, 100, 'CNY', '', 'lost', now() - interval '169 hours'`, "it is lost over CNY 1.00"},
		{
			"a day whose statement nothing has asked for", "statements", ledger +
				`SELECT 'sandbox', 'capture', $3::text, $2, $1, NULL, 100, 'CNY', '` + afterItsMidnight.Format(time.RFC3339) + `'`,
			afterItsMidnight.AddDate(0, 0, 1).Format(time.DateOnly) + ": it was not compared with the ledger: nothing has asked for it",
		},
		{"a day whose statement cannot be had", "statements", `WITH s AS (INSERT INTO payments.statements (provider, day, from_time, to_time, wanted, last_error)
			SELECT 'sandbox', now() - interval '3 days', now() - interval '73 hours', now() - interval '49 hours', true, 'no answer') ` + ledger +
			`SELECT 'sandbox', 'capture', $3::text, $2, $1, NULL, 100, 'CNY', now() - interval '3 days'`, "no answer"},
		{"more refunds than money", "I4", refund + `'requested', now()`, "CNY 1.00 is to be refunded of CNY 0.00 that capture x brought"},
		{"a refund settled by hand without a ledger row", "I4", asked + `30, 'settled_by_hand', '42', 7 FROM payments.payments WHERE payment_no = $2 AND order_no = $1`, "0 ledger rows"},
		{"a refund settled by hand counts as moved", "I4", `WITH r AS (` + asked + `30, 'settled_by_hand', '42', 7 FROM payments.payments WHERE payment_no = $2) ` + ledger +
			`SELECT 'by-hand', 'refund', $3::text, $2, $1, $3, 31, 'CNY', now()`, "the order says CNY 0.70, the ledger has CNY 0.69"},
		{"a refund that no chargeback has ended", "I4", asked + `30, 'charged_back', '', 0 FROM payments.payments WHERE payment_no = $2 AND order_no = $1`, "refunds of CNY 0.30 ended by chargebacks, which took CNY 0.00"},
		{"an order that ignores its refunds", "I5", asked + `100, 'requested', '', 0 FROM payments.payments WHERE payment_no = $2 AND order_no = $1`, "it is paid, and its refunds say refunding"},
		{"an order whose refund failed", "I5", asked + `100, 'failed', '', 0 FROM payments.payments WHERE payment_no = $2 AND order_no = $1`, "it is paid, and its refunds say refund_failed"},
		{"an order that hides what was taken back", "I5", `WITH o AS (UPDATE orders.orders SET status = 'refunded' WHERE order_no = $1) ` +
			asked + `100, 'failed', '', 0 FROM payments.payments WHERE payment_no = $2`, "it is refunded, and its refunds say refunded but taken back"},
		{"an order that refunds nothing", "I5", `UPDATE orders.orders SET status = 'refunding' WHERE order_no = $1 AND $2::uuid <> $3::uuid`, "it is refunding, and its refunds say paid"},
		{"a refund that takes too long", "I5", refund + `'requested', now() - interval '61 seconds'`, "requested for 61 s"},
		{"a refund that failed", "I5", refund + `'failed', now()`, "CNY 1.00 has been failed for"},
		{"money on a closed order", "I5", `WITH o AS (UPDATE orders.orders SET status = 'closed' WHERE order_no = $1) ` + ledger +
			`SELECT 'sandbox', 'capture', $3::text, $2, $1, NULL, 100, 'CNY', now() - interval '61 seconds'`, "lies on an order that is closed"},
		{"money on no order at all", "I5", ledger + `SELECT 'sandbox', 'capture', $3::uuid::text, $2, $3, NULL, 100, 'CNY', now() - interval '61 seconds' WHERE $1::uuid IS NOT NULL`, "an order that is unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tx := pgtest.Begin(t, s.db)
			pgtest.Exec(t, tx, tt.plant, no, paymentNo, ids.New())
			check := checkMoney
			switch tt.check {
			case "I5":
				check = checkReturned
			case "statements":
				check = func(ctx context.Context, db paymentdb.DBTX) ([]proof.Violation, error) {
					return statement.Check(ctx, db, shop, maxViolations, free)
				}
			}
			found, err := check(t.Context(), tx)
			require.NoError(t, err)
			if !slices.ContainsFunc(found, func(v proof.Violation) bool { return strings.Contains(v.Subject+": "+v.Detail, tt.says) }) {
				t.Errorf("no violation says %q: %v", tt.says, found)
			}
		})
	}
	moneyOnItsWayBackIsNoViolation(t, s)
}

// Money that waits for its refund within the bound is in flight.
func moneyOnItsWayBackIsNoViolation(t *testing.T, s *bundle) {
	t.Helper()
	no, _ := s.late(sandbox.Normal)
	s.booksAreRight()
	s.exec(`UPDATE payments.refunds SET created_at = now() - interval '61 seconds'`)
	s.finds(checkReturned, 1) // after the bound
	s.exec(`UPDATE payments.refunds SET attempts = 1`)
	s.finds(checkReturned, 0) // once the provider is at it
	s.exec(`UPDATE payments.refunds SET last_error = 'no answer'`)
	s.finds(checkReturned, 1) // while the provider does not answer
	s.exec(`UPDATE payments.refunds SET last_error = '', created_at = now() - interval '169 hours'`)
	s.finds(checkReturned, 1) // after the provider's bound
	s.exec(`UPDATE payments.refunds SET decided_at = now()`)
	s.finds(checkReturned, 0) // requested when it was approved
	s.refundsDone(no)
	s.booksAreRight()
}
