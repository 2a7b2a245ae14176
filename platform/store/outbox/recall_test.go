package outbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// A NATS server that loses its store while in use gets its events again, as far
// back as it would have kept them, without a restart of the relay.
func TestEventsLostWhileRunningAreSentAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	srv := bustest.StartServer(t)
	b := bustest.Open(t, bustest.On(srv.URL))
	got := consume(t, b)
	kept, old := add(t, pool, "kept"), add(t, pool, "old")
	pgtest.Work(t, relay(pool, b).Run)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(got.list()) == 2 }, "both events arrive")
	allSent(t, pool)
	// EVENTS would no longer have this one.
	pgtest.Exec(t, pool, `UPDATE platform.outbox SET sent_at = now() - interval '97 hours' WHERE id = $1`, old)

	srv.Stop()
	require.NoError(t, os.RemoveAll(srv.StoreDir))
	srv.Start()
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(got.list()) > 2 }, "the lost event arrives again")
	fresh := add(t, pool, "fresh")
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(got.list()) > 3 }, "the next event arrives")
	allSent(t, pool)
	if l := got.list(); len(l) != 4 || l[2].ID != kept || l[3].ID != fresh {
		t.Errorf("arrived: %v, want %s again and then %s", l[2:], kept, fresh)
	}
}

// The same on a fresh volume, when the process that sent the events is long gone.
func TestEventsLostBetweenTwoStartsAreSentAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	id := add(t, pool, "sent yesterday")
	pgtest.Exec(t, pool, `UPDATE platform.outbox SET sent_at = now() - interval '20 hours', day = day - 1`)
	missed := add(t, pool, "waited for the new EVENTS")
	b := bustest.Open(t)
	got := consume(t, b)
	pgtest.Eventually(t, 30*time.Second, func() bool { return time.Now().After(b.EventsCreated().Add(time.Millisecond)) }, "a later millisecond")
	news := add(t, pool, "news")
	stop := pgtest.Work(t, relay(pool, b).Run)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(got.list()) > 2 }, "the events arrive")
	l := got.list()
	require.Equal(t, "order of arrival, the newest first", []ids.ID{l[0].ID, l[1].ID, l[2].ID}, []ids.ID{news, missed, id})
	allSent(t, pool)
	stop()
	// A start on an EVENTS that is older than the mark leaves the row alone.
	pgtest.Exec(t, pool, `UPDATE platform.outbox SET sent_at = now() - interval '50 minutes'`)
	r := relay(pool, b)
	outbox.AgeEvents(r, time.Hour)
	stop = pgtest.Work(t, r.Run)
	next := add(t, pool, "next")
	pgtest.Eventually(t, 30*time.Second, func() bool { l := got.list(); return l[len(l)-1].ID == next }, "the next event arrives")
	stop()
	const untouched = `SELECT count(*) FROM platform.outbox WHERE id = $1 AND sent_at < now() - interval '49 minutes'`
	require.Equal(t, "rows left alone, as EVENTS has them", pgtest.Read[int](t, pool, untouched, id), 1)
}

// A restart soon after EVENTS was created sends nothing again.
func TestRestartIsNotALoss(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	got := consume(t, b)
	add(t, pool, "first")
	stop := pgtest.Work(t, relay(pool, b).Run)
	allSent(t, pool)
	stop()
	var said bytes.Buffer // read when the relay has ended
	stop = pgtest.Work(t, outbox.New(pool, b, nil, time.Hour, alarm.OutboxRefused.Raise, alarm.OutboxFailed.Raise, slog.New(slog.NewTextHandler(&said, nil)), nil).Run)
	next := add(t, pool, "next")
	pgtest.Eventually(t, 30*time.Second, func() bool { l := got.list(); return len(l) > 1 && l[len(l)-1].ID == next }, "the next event arrives")
	stop()
	if text := said.String(); strings.Contains(text, "resending") || len(got.list()) != 2 {
		t.Errorf("%d events arrived; the log is %s", len(got.list()), text)
	}
}

// Events committed during the stop are sent before the relay ends.
func TestRelaySendsRemainingRowsBeforeItEnds(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	const rows = 300 // more than a window
	if _, err := pool.Exec(t.Context(), `INSERT INTO platform.outbox (id, subject, payload)
		SELECT gen_random_uuid(), 'events.test', '' FROM generate_series(1, $1)`, rows); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := relay(pool, b)
	outbox.Patient(r)
	require.NoError(t, r.Run(ctx))
	require.Equal(t, "rows left", unsent(t, pool), 0)
}

// A hanging Postgres delays the stop by at most the grace period.
func TestHangingPostgresDoesNotBlockTheStop(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	r := relay(pool, b)
	reached := make(chan struct{}, 1)
	outbox.DieBeforeMark(r, func() error { reached <- struct{}{}; return nil })
	stop := pgtest.Work(t, r.Run)
	add(t, pool, "first")
	<-reached
	allSent(t, pool)
	hanging := pgtest.Begin(t, pool)
	pgtest.Exec(t, hanging, `LOCK TABLE platform.outbox IN ACCESS EXCLUSIVE MODE`)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return pgtest.Read[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'platform.outbox'::regclass)`)
	}, "the relay waits for Postgres")
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(8 * time.Second):
		t.Error("the relay did not end")
		_ = hanging.Rollback(context.Background())
		<-ended
	}
}
