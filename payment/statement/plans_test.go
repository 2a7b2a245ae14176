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
	for what, step := range map[string]struct {
		do   func() error
		most map[string]int // rows of each table
	}{
		"the check": {
			func() error {
				found, err := Check(t.Context(), db, time.UTC, 10, "by-hand")
				require.Equal(t, "days that were not compared", len(found), 1)
				return err
			},
			map[string]int{"ledger": kept / 3}, // the smallest part of a ledger that its index knows is 128 pages
		},
		"the comparison": {
			func() error {
				return q.Compare(t.Context(), statementdb.CompareParams{
					Provider: "sandbox", Day: now.AddDate(0, 0, -3), FromTime: now.Add(-80 * time.Hour), ToTime: now.Add(-60 * time.Hour),
				})
			},
			map[string]int{"ledger": kept / 3, "statement_lines": 10},
		},
	} {
		read := func() map[string]int {
			pgtest.Exec(t, db, `SELECT pg_stat_force_next_flush()`)
			return pgtest.Read[map[string]int](t, db, `SELECT jsonb_object_agg(relname, seq_tup_read + idx_tup_fetch)
				FROM pg_stat_user_tables WHERE schemaname = 'payments'`)
		}
		before := read()
		require.NoError(t, step.do())
		after := read()
		for table, most := range step.most {
			if n := after[table] - before[table]; n > most {
				t.Errorf("%s read %d rows of %s", what, n, table)
			}
		}
	}
}
