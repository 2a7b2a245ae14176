package statement

import (
	"testing"
	"time"

	"stampede/payment/statement/internal/statementdb"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// TestComparisonsReadTheirDays checks that neither the check for days without a comparison nor the comparison of one day grows
// with the ledger, the days and the lines that are kept.
func TestComparisonsReadTheirDays(t *testing.T) {
	t.Parallel()
	const kept = 40_000
	db := pgtest.Connect(t, pgtest.DatabaseURL(t))
	now := time.Now()
	pgtest.Exec(t, db, `INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, amount, currency, at)
		SELECT 'sandbox', 'capture', i, gen_random_uuid(), gen_random_uuid(), 100, 'CNY', $2::timestamptz - interval '30 days' - interval '1 minute' * ($1 - i)
		FROM generate_series(1, $1::int) i`, kept, now)
	pgtest.Exec(t, db, `INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, refund_no, amount, currency, at)
		SELECT 'sandbox', k, 'again', $1, $1, $1, 100, 'CNY', $2 FROM unnest(ARRAY['refund', 'refund_reversal']) k`, ids.New(), now.Add(-72*time.Hour))
	pgtest.Exec(t, db, `INSERT INTO payments.statements (provider, day, from_time, to_time, wanted, compared_at)
		SELECT 'sandbox', d, d, d + interval '1 day', true, d
		FROM generate_series($1::timestamptz - interval '3000 days', $1::timestamptz - interval '20 days', interval '1 day') d`, now)
	pgtest.Exec(t, db, `INSERT INTO payments.statement_lines (provider, day, kind, provider_txn, amount, fee, currency, at)
		SELECT 'sandbox', current_date - 30 - i / 1000, 'capture', i, 100, 0, 'CNY', now() FROM generate_series(1, $1::int) i`, kept)
	pgtest.Exec(t, db, `VACUUM ANALYZE payments.ledger, payments.statements, payments.statement_lines`)
	q := statementdb.New(db)
	for what, do := range map[string]func() error{
		"the check": func() error {
			found, err := Check(t.Context(), db, time.UTC, 10, "by-hand")
			require.Equal(t, "days that were not compared", len(found), 1)
			return err
		},
		"the comparison": func() error {
			return q.Compare(t.Context(), statementdb.CompareParams{
				Provider: "sandbox", Day: now.AddDate(0, 0, -3), FromTime: now.Add(-80 * time.Hour), ToTime: now.Add(-60 * time.Hour),
			})
		},
	} {
		read := func() [2]int {
			return [2]int{pgtest.RowsRead(t, db, "payments.ledger"), pgtest.RowsRead(t, db, "payments.statement_lines")}
		}
		before := read()
		require.NoError(t, do())
		after := read()
		if ledger, lines := after[0]-before[0], after[1]-before[1]; ledger > kept/3 || lines > 10 { // 128 pages, of which the ledger's index knows parts
			t.Errorf("%s read %d rows of the ledger and %d lines", what, ledger, lines)
		}
	}
}
