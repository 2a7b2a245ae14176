package outbox_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// quarter is the default retention of records.
const quarter = 90 * 24 * time.Hour

func partitions(t testing.TB, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT inhrelid::regclass::text FROM pg_inherits
		WHERE inhparent IN ('platform.outbox'::regclass, 'platform.inbox'::regclass)`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

func TestHousekeeperCreatesAndDropsPartitions(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	name := func(base string, days int) string {
		return "platform." + base + "_" + today.AddDate(0, 0, days).Format("20060102")
	}
	partition := func(base string, days int) {
		t.Helper()
		day := today.AddDate(0, 0, days)
		if _, err := pool.Exec(t.Context(), `CREATE TABLE `+name(base, days)+` PARTITION OF platform.`+base+
			` FOR VALUES FROM ('`+day.Format(time.DateOnly)+`') TO ('`+day.AddDate(0, 0, 1).Format(time.DateOnly)+`')`); err != nil {
			t.Fatal(err)
		}
	}
	for _, days := range []int{-30, -31, -40} {
		partition("outbox", days)
	}
	for _, days := range []int{-7, -8, -20} {
		partition("inbox", days)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO platform.outbox (id, day, subject, payload) VALUES ($1, $2, 'events.a', '')`,
		ids.New(), today.AddDate(0, 0, -40)); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, pool, `DROP TABLE `+name("outbox", 7))
	h := outbox.NewHousekeeper(pool, quarter, discard())
	require.Contains(t, "tidy", fmt.Sprint(h.Tidy(t.Context())), "unsent")
	pgtest.Exec(t, pool, `UPDATE platform.outbox SET sent_at = now()`)
	kept := partitions(t, pool)
	for part, want := range map[string]bool{
		name("outbox", 7): true, name("outbox", -30): true, name("outbox", -31): false, name("outbox", -40): true,
		name("inbox", -7): true, name("inbox", -8): false, name("inbox", -20): false,
	} {
		require.Equal(t, part+" exists", slices.Contains(kept, part), want)
	}

	// Two run concurrently, now that everything is sent.
	dropped, err := outbox.DroppedPlace(t.Context(), pool)
	require.NoError(t, err)
	require.Equal(t, "place that was dropped", dropped, 0)
	partition("inbox", -30)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := h.Tidy(t.Context()); err != nil && !pg.LockTimedOut(err) { // the next round drops what the other has
				t.Errorf("tidy: %v", err)
			}
		})
	}
	both.Wait()
	kept = partitions(t, pool)
	require.Equal(t, "old days are still there", slices.Contains(kept, name("outbox", -40)) || slices.Contains(kept, name("inbox", -30)), false)
	dropped, err = outbox.DroppedPlace(t.Context(), pool)
	require.NoError(t, err)
	require.Equal(t, "place that was dropped", dropped, 1)
}

// Ongoing alarms and recent dead letters stay, the others are removed.
func TestHousekeeperRemovesOldRecords(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	for _, sql := range []string{
		`INSERT INTO platform.alarms (code, subject, severity, next_action, first_seen, last_seen) VALUES
			('hold-stuck', 'old', 'critical', 'x', now() - interval '99 days', now() - interval '91 days'),
			('hold-stuck', 'goes on', 'critical', 'x', now() - interval '99 days', now() - interval '89 days')`,
		`INSERT INTO platform.dead_letters (id, consumer, subject, message_id, payload, error, attempts, created_at) VALUES
			(gen_random_uuid(), 'c', 's', 'old', '', '', 1, now() - interval '91 days'),
			(gen_random_uuid(), 'c', 's', 'young', '', '', 1, now() - interval '89 days')`,
		`INSERT INTO platform.outbox_refused (id, subject, payload, created_at, error, next_try, failed_at) VALUES
			(gen_random_uuid(), 'old', '', now() - interval '99 days', '', NULL, now() - interval '91 days'),
			(gen_random_uuid(), 'young', '', now() - interval '99 days', '', NULL, now() - interval '89 days'),
			(gen_random_uuid(), 'tried', '', now() - interval '99 days', '', now(), NULL)`,
	} {
		pgtest.Exec(t, pool, sql)
	}
	const left = `SELECT concat_ws(' | ', (SELECT coalesce(string_agg(subject, ','), '') FROM platform.alarms),
		(SELECT coalesce(string_agg(message_id, ','), '') FROM platform.dead_letters),
		(SELECT coalesce(string_agg(subject, ',' ORDER BY subject), '') FROM platform.outbox_refused))`
	for _, c := range []struct {
		keep time.Duration
		want string
	}{{quarter, "goes on | young | tried,young"}, {88 * 24 * time.Hour, " |  | tried"}} {
		require.NoError(t, outbox.NewHousekeeper(pool, c.keep, discard()).Tidy(t.Context()))
		require.Equal(t, "alarms, letters and events that are left", pgtest.Read[string](t, pool, left), c.want)
	}
}

// TestPartitionsAreNotCreatedAtTheWritersExpense holds what a pg_dump holds, a
// shared lock on every table, while a day's partition is missing.
func TestPartitionsAreNotCreatedAtTheWritersExpense(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	missing := "platform.outbox_" + time.Now().UTC().AddDate(0, 0, 7).Format("20060102")
	pgtest.Exec(t, pool, `DROP TABLE `+missing)
	dump := pgtest.Begin(t, pool)
	pgtest.Exec(t, dump, `LOCK TABLE platform.outbox IN ACCESS SHARE MODE`) // with its partitions
	tidied := make(chan error, 1)
	go func() { tidied <- outbox.NewHousekeeper(pool, quarter, discard()).Tidy(t.Context()) }()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return pgtest.Read[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
			AND relation IN ('platform.outbox'::regclass, 'platform.outbox_default'::regclass))`)
	}, "the housekeeper to wait for its lock")
	// The bound counts waiting for locks alone, so that a busy machine does not fail it.
	err := pg.InTxWaiting(t.Context(), pool, 10*time.Millisecond, func(tx pgx.Tx) error {
		_, err := outbox.Append(t.Context(), tx, "events.a", []byte{})
		return err
	})
	require.NoError(t, err) // of a writer beside it
	select {
	case err := <-tidied:
		require.Equal(t, fmt.Sprintf("%v is a lock time-out", err), pg.LockTimedOut(err), true)
	case <-time.After(30 * time.Second):
		t.Fatal("the housekeeper still waits for its lock")
	}
	require.NoError(t, dump.Rollback(t.Context()))
	require.NoError(t, outbox.NewHousekeeper(pool, quarter, discard()).Tidy(t.Context()))
	require.Equal(t, "the partition was created after the dump", slices.Contains(partitions(t, pool), missing), true)
}

// A partition that is attached is as one created by PARTITION OF.
func TestPartitionsHaveTheParentsShape(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	day := time.Now().UTC().AddDate(0, 0, 3)
	name := "outbox_" + day.Format("20060102")
	pgtest.Exec(t, pool, `CREATE TABLE platform.twin PARTITION OF platform.outbox FOR VALUES FROM ($$2001-01-01$$) TO ($$2001-01-02$$)`)
	shape := func(table string) string {
		t.Helper()
		return pgtest.Read[string](t, pool, `SELECT
			(SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull, attstorage, pg_get_expr(adbin, adrelid)), ', ' ORDER BY attnum)
			 FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = ('platform.' || $1)::regclass AND attnum > 0)
			|| (SELECT string_agg(replace(pg_get_indexdef(indexrelid), $1, ''), ', ' ORDER BY replace(pg_get_indexdef(indexrelid), $1, '')) FROM pg_index WHERE indrelid = ('platform.' || $1)::regclass)
			|| (SELECT count(*) FROM pg_constraint WHERE conrelid = ('platform.' || $1)::regclass)`, table)
	}
	require.Equal(t, "attached against created", shape(name), shape("twin"))
}
