package outbox_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
	"stampede/platform/workshop/pgtest"
)

// quarter is the default retention of records.
const quarter = 90 * 24 * time.Hour

func partitions(t testing.TB, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT inhrelid::regclass::text FROM pg_inherits
		WHERE inhparent IN ('platform.outbox'::regclass, 'platform.inbox'::regclass)`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
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
	for _, days := range []int{-7, -8, -20} {
		partition("outbox", days)
		partition("inbox", days)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO platform.outbox (id, day, subject, payload) VALUES ($1, $2, 'events.a', '')`,
		ids.New(), today.AddDate(0, 0, -20)); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `DROP TABLE `+name("outbox", 7)); err != nil {
		t.Fatal(err)
	}
	h := outbox.NewHousekeeper(pool, quarter, discard())
	if err := h.Tidy(t.Context()); err == nil || !strings.Contains(err.Error(), "unsent") {
		t.Fatalf("tidy: %v, want an error about unsent rows", err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE platform.outbox SET sent_at = now()`); err != nil {
		t.Fatal(err)
	}
	kept := partitions(t, pool)
	for part, want := range map[string]bool{
		name("outbox", 7): true, name("outbox", -7): true, name("outbox", -8): false, name("outbox", -20): true,
		name("inbox", -7): true, name("inbox", -8): false, name("inbox", -20): false,
	} {
		if slices.Contains(kept, part) != want {
			t.Errorf("%s exists: %v, want %v", part, !want, want)
		}
	}

	// Two run concurrently, now that everything is sent.
	partition("inbox", -30)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := h.Tidy(t.Context()); err != nil {
				t.Errorf("tidy: %v", err)
			}
		})
	}
	both.Wait()
	kept = partitions(t, pool)
	if slices.Contains(kept, name("outbox", -20)) || slices.Contains(kept, name("inbox", -30)) {
		t.Errorf("old days are still there: %v", kept)
	}
}

func TestHousekeeperRunsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- outbox.NewHousekeeper(pool, quarter, discard()).Run(ctx) }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Run did not return")
	}
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
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (alarms, letters string) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), `SELECT (SELECT coalesce(string_agg(subject, ','), '') FROM platform.alarms),
			(SELECT coalesce(string_agg(message_id, ','), '') FROM platform.dead_letters)`).Scan(&alarms, &letters); err != nil {
			t.Fatal(err)
		}
		return alarms, letters
	}
	for _, c := range []struct {
		keep            time.Duration
		alarms, letters string
	}{{quarter, "goes on", "young"}, {88 * 24 * time.Hour, "", ""}} {
		if err := outbox.NewHousekeeper(pool, c.keep, discard()).Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if alarms, letters := left(); alarms != c.alarms || letters != c.letters {
			t.Errorf("after %s: alarms %q and letters %q are left", c.keep, alarms, letters)
		}
	}
}
