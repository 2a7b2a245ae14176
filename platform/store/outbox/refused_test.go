package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func message(t testing.TB, pool *pgxpool.Pool, id ids.ID) outbox.Message {
	t.Helper()
	m, ok, err := outbox.Get(t.Context(), pool, id)
	require.Equal(t, "event "+id.String(), fmt.Sprint(ok, err), "true <nil>")
	return m
}

// An event that the bus refuses is set aside with an alarm, so that the others are sent; it is tried again, fails after the bound with an alarm,
// and stays; redriven after its cause was repaired, it arrives under its id.
func TestRefusedEventFailsAndIsRedriven(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	got := consume(t, b)
	id := ids.New()
	pgtest.Exec(t, pool, `INSERT INTO platform.outbox (id, subject, payload) VALUES ($1, 'nowhere.test', 'x')`, id)
	r := relay(pool, b)
	outbox.RetryRefused(r, time.Millisecond)
	pgtest.Work(t, r.Run)
	small := add(t, pool, "small") // found without a wake-up
	pgtest.Eventually(t, 30*time.Second, func() bool { l := got.list(); return len(l) == 1 && l[0].ID == small }, "another event arrives")
	is := func(want outbox.Status, attempts int) func() bool {
		return func() bool { m := message(t, pool, id); return m.Status == want && m.Attempts >= attempts }
	}
	pgtest.Eventually(t, 30*time.Second, is(outbox.Pending, 3), "three attempts")
	require.Equal(t, "unsent rows that keep their partition", unsent(t, pool), 0)
	pgtest.Exec(t, pool, `UPDATE platform.outbox_refused SET refused_at = refused_at - interval '2 hours', next_try = clock_timestamp()`)
	r.Wake()
	pgtest.Eventually(t, 30*time.Second, is(outbox.Failed, 4), "the event fails")
	for _, code := range []alarm.Code{alarm.OutboxRefused.Code, alarm.OutboxFailed.Code} {
		list, err := alarm.List(t.Context(), pool, alarm.Filter{Code: code})
		if err != nil || len(list) != 1 || list[0].Subject != "nowhere.test" {
			t.Errorf("alarms %+v, %v", list, err)
		}
	}
	failed := message(t, pool, id)
	require.Equal(t, "failed", fmt.Sprint(failed.NextTry == nil, failed.FailedAt != nil, failed.Error != ""), "true true true")

	redrive := func() (redriven []outbox.Redriven) {
		t.Helper()
		err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) (err error) { redriven, err = outbox.Redrive(t.Context(), tx, id); return err })
		require.NoError(t, err)
		return redriven
	}
	require.Equal(t, "redriven", len(redrive()), 1)
	r.Wake()
	pgtest.Eventually(t, 30*time.Second, is(outbox.Pending, failed.Attempts+1), "it is tried again")
	pgtest.Exec(t, pool, `UPDATE platform.outbox_refused SET subject = 'events.test', next_try = clock_timestamp()`)
	pgtest.Eventually(t, 30*time.Second, func() bool { l := got.list(); return len(l) == 2 && l[1].ID == id }, "the event arrives")
	pgtest.Eventually(t, 30*time.Second, is(outbox.Sent, 0), "it is in the outbox again, as sent")
	require.Equal(t, "sent events redriven", len(redrive()), 0)
}

// Refused attempts end with an event; an outage of the bus, however long, does not.
func TestOutageDoesNotFailRefusedEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	b := bustest.Open(t, func(c *bus.Config) { c.EventsMaxMiB = 1 })
	var err error
	for err == nil {
		err = b.Publish(t.Context(), "events.filler", ids.New(), make([]byte, 100<<10))
	}
	require.ErrorIs(t, err, bus.ErrFull)
	id := ids.New()
	pgtest.Exec(t, pool, `INSERT INTO platform.outbox_refused (id, subject, payload, created_at, error, refused_at, next_try)
		VALUES ($1, 'events.test', $2, now() - interval '9 days', 'too large', now() - interval '9 days', now())`, id, make([]byte, 200<<10))
	add(t, pool, string(make([]byte, 200<<10)))
	r := relay(pool, b)
	outbox.RetryRefused(r, time.Millisecond)
	windows := make(chan struct{}, 100)
	outbox.DieBeforeMark(r, func() error { windows <- struct{}{}; return nil })
	pgtest.Work(t, r.Run)
	for range 3 { // a retry before each
		<-windows
	}
	m := message(t, pool, id)
	require.Equal(t, "after the outage", fmt.Sprintf("%v %d", m.Status, m.Attempts), fmt.Sprintf("%v 1", outbox.Pending))
}
