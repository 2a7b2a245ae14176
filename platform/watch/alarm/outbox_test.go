package alarm_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// No relay runs, and events wait for longer than they may. Their age does not
// matter: a recall has just unmarked them.
func TestOutboxThatIsBehindIsAnAlarm(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	probe := alarm.OutboxProbe(pool)
	look := func(want int) {
		t.Helper()
		if found, err := probe.Look(t.Context()); err != nil || len(found) != want {
			t.Fatalf("found %+v, %v; want %d", found, err, want)
		}
	}
	look(0)
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := outbox.Append(t.Context(), tx, "events.test", "fresh")
		return err
	})
	require.NoError(t, err)
	look(0)
	pgtest.Exec(t, pool, `UPDATE platform.outbox SET created_at = clock_timestamp() - interval '1 hour'`)
	look(1)
	if probe.For < time.Minute {
		t.Errorf("raised after %s, shorter than a restart of NATS", probe.For)
	}
	probe.For, probe.Every = 200*time.Millisecond, 20*time.Millisecond
	stop := watch(t, pool, probe)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(raised(t, pool, alarm.OutboxBehind)) == 1 }, "the alarm")
	stop()
	pgtest.Exec(t, pool, `UPDATE platform.outbox SET sent_at = clock_timestamp()`)
	look(0)
}
