package statement

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/payment/statement/internal/statementdb"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestForgettingReadsOnlyOldLines checks that the lines which are kept, whose number grows
// with the shop, cost the minute's deletion nothing: what it reads is a path down the indexes.
func TestForgettingReadsOnlyOldLines(t *testing.T) {
	t.Parallel()
	const kept, old = 40_000, 100
	db := pgtest.Connect(t, pgtest.DatabaseURL(t))
	pgtest.Exec(t, db, `INSERT INTO payments.statement_lines (provider, day, kind, provider_txn, amount, fee, currency, at)
		SELECT 'sandbox', current_date - CASE WHEN i <= $1 THEN 200 ELSE i % 90 END, 'capture', i, 100, 0, 'CNY', now()
		FROM generate_series(1, $1 + $2::int) i`, old, kept)
	pgtest.Exec(t, db, `VACUUM ANALYZE payments.statement_lines`)
	forget := func(want int64) (blocks int) {
		t.Helper()
		before := blocksRead(t, db)
		n, err := statementdb.New(db).ForgetLines(t.Context(), statementdb.ForgetLinesParams{Before: time.Now().AddDate(0, 0, -keepDays), AtMost: forgetAtMost})
		require.NoError(t, err)
		require.Equal(t, "lines forgotten", n, want)
		return blocksRead(t, db) - before
	}
	forget(old)
	if n := forget(0); n > 10 {
		t.Errorf("forgetting nothing of %d lines read %d blocks", kept, n)
	}
}

// blocksRead is how many blocks of the lines and their indexes this database has read.
func blocksRead(t *testing.T, db *pgx.Conn) int {
	t.Helper()
	pgtest.Exec(t, db, `SELECT pg_stat_force_next_flush()`)
	return pgtest.Read[int](t, db, `SELECT (heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::int
		FROM pg_statio_user_tables WHERE relid = 'payments.statement_lines'::regclass`)
}
