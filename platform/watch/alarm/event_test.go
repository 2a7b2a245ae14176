package alarm_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// published are the events of incidents.
func published(t *testing.T, pool *pgxpool.Pool) (all []string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT payload FROM platform.outbox WHERE subject = $1 ORDER BY id`, alarm.SubjectRaised)
	require.NoError(t, err)
	for rows.Next() {
		var payload []byte
		var e alarm.Raised
		require.NoError(t, rows.Scan(&payload))
		require.NoError(t, json.Unmarshal(payload, &e))
		require.Equal(t, "what to do", e.NextAction != "" && !e.OpenedAt.IsZero(), true)
		all = append(all, fmt.Sprintf("%d-%d %s %s %s: %s", e.ID, e.Incident, e.Severity, e.Code, e.Subject, e.Detail))
	}
	require.NoError(t, rows.Err())
	return all
}

// Three instances publish each incident once: not its repetitions, not what was rolled back nor what is for information, and
// again after an hour's silence. Then the pulse has nothing for them.
func TestEachIncidentIsPublishedOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	instance := func() (stop func()) {
		workers, err := alarm.Workers(pool, nil, notifier(t, pool, nil), alarm.Parts{}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		require.NoError(t, err)
		return pgtest.Work(t, workers[slices.IndexFunc(workers, func(w app.Worker) bool { return w.Name == "alarm-events" })].Run)
	}
	for range 2 {
		instance()
	}
	stop := instance()
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		require.NoError(t, tooFew.Raise(t.Context(), tx, "item 1", "of a transaction that ends without a commit"))
		return pgx.ErrTxCommitRollback
	})
	require.ErrorIs(t, err, pgx.ErrTxCommitRollback)
	raise(t, pool, letter, "a consumer", "out of memory")
	await := func(want ...string) {
		t.Helper()
		pgtest.Eventually(t, 30*time.Second, func() bool { return len(published(t, pool)) >= len(want) }, "the event")
		require.Equal(t, "events", published(t, pool), want)
	}
	id := list(t, pool, alarm.Filter{})[0].ID
	first := fmt.Sprintf("%d-1 critical test-letter a consumer: out of memory", id)
	await(first)
	stop()
	raise(t, pool, letter, "a consumer", "again")
	raise(t, pool, slow, "refund 1", "")
	second := fmt.Sprintf("%d-1 warning test-slow refund 1: ", list(t, pool, alarm.Filter{Code: slow.Code})[0].ID)
	await(first, second)
	pgtest.Exec(t, pool, `UPDATE platform.alarms SET last_seen = clock_timestamp() - interval '61 minutes' WHERE id = $1`, id)
	raise(t, pool, news, "session 1", "7 sold")
	raise(t, pool, letter, "a consumer", "back")
	await(first, second, fmt.Sprintf("%d-2 critical test-letter a consumer: back", id))
	pgtest.Eventually(t, 30*time.Second, func() bool { return !pgtest.Read[bool](t, pool, `SELECT `+alarm.Unpublished) }, "the end of what is due")
}
