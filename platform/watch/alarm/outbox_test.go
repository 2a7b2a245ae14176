package alarm_test

import (
	"fmt"
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
		found, err := probe.Look(t.Context())
		require.Equal(t, fmt.Sprintf("findings %+v", found), fmt.Sprint(len(found), err), fmt.Sprint(want, nil))
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
	require.Equal(t, fmt.Sprintf("%s is longer than a restart of NATS", probe.For), probe.For >= time.Minute, true)
	probe.For, probe.Every = 200*time.Millisecond, 20*time.Millisecond
	stop := watch(t, pool, probe)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(raised(t, pool, alarm.OutboxBehind)) == 1 }, "the alarm")
	stop()
	pgtest.Exec(t, pool, `UPDATE platform.outbox SET sent_at = clock_timestamp()`)
	look(0)
}
