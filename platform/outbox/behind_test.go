package outbox_test

import (
	"context"
	"testing"
	"time"

	"stampede/platform/alarm"
	"stampede/platform/outbox"
	"stampede/platform/pgtest"
)

// Nobody relays, and rows wait for longer than they may. How old they are tells
// nothing: a recall has just unmarked them.
func TestOutboxThatIsBehindIsAnAlarm(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	probe := outbox.Behind(pool)
	look := func(want int) {
		t.Helper()
		if found, err := probe.Look(t.Context()); err != nil || len(found) != want {
			t.Fatalf("found %+v, %v; want %d", found, err, want)
		}
	}
	look(0)
	add(t, pool, "fresh")
	look(0)
	if _, err := pool.Exec(t.Context(), `UPDATE platform.outbox SET created_at = clock_timestamp() - interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	look(1)
	if probe.For < time.Minute {
		t.Errorf("raised after %s, whatever the relay is about", probe.For)
	}
	probe.For, probe.Every = 200*time.Millisecond, 20*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- alarm.NewWatch(pool, discard(), probe).Run(ctx) }()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		l, err := alarm.List(t.Context(), pool, alarm.Filter{Code: alarm.OutboxBehind})
		return err == nil && len(l) == 1
	}, "the alarm")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE platform.outbox SET sent_at = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	look(0)
}
