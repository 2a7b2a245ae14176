package deadletters_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/deadletters"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

// A handler that keeps failing leaves a dead letter and an alarm, and the message is
// not redelivered.
func TestFailingHandlerLeavesDeadLetterAndAlarm(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	var handled atomic.Int64
	sub := bus.Subscription{Name: "effect", Filter: "events.a", MaxAttempts: 2, Handle: func(context.Context, bus.Msg) error {
		handled.Add(1)
		return errors.New("cannot: \x00\xff broken text")
	}}
	stop, err := b.Subscribe(t.Context(), []bus.Subscription{sub}, deadletters.Keeper(pool))
	if err != nil {
		t.Fatal(err)
	}
	defer stop(context.Background())
	id := ids.New()
	if err := b.Publish(t.Context(), "events.a", id, []byte("payload")); err != nil {
		t.Fatal(err)
	}
	type letter struct {
		Consumer, Subject, MessageID string
		Payload                      []byte
		Error                        string
		Attempts                     int
	}
	letters := func() []letter {
		rows, err := pool.Query(t.Context(), `SELECT consumer, subject, message_id, payload, error, attempts FROM platform.dead_letters`)
		if err != nil {
			t.Fatal(err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[letter])
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(letters()) == 1 }, "the dead letter is kept")
	l := letters()[0]
	if l.Consumer != "effect" || l.Subject != "events.a" || l.MessageID != id.String() || string(l.Payload) != "payload" ||
		!strings.Contains(l.Error, "broken text") || l.Attempts != 2 {
		t.Errorf("dead letter %+v", l)
	}
	alarms, err := alarm.List(t.Context(), pool, alarm.Filter{Open: true, Limit: 10})
	if err != nil || len(alarms) != 1 || alarms[0].Code != "dead-letter" || alarms[0].Subject != "effect" {
		t.Errorf("alarms %+v, %v", alarms, err)
	}
	// It was acknowledged: only the next message is delivered.
	if err := b.Publish(t.Context(), "events.a", ids.New(), nil); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(letters()) == 2 }, "the second dead letter is kept")
	if n := handled.Load(); n != 4 {
		t.Errorf("handled %d times, want 4", n)
	}
}

func TestKeepMayBeRepeated(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	for _, m := range []bus.Msg{{ID: ids.New(), Subject: "events.a"}, {Seq: 7, Subject: "events.a"}, {Seq: 8, Subject: "events.a"}} {
		for range 2 {
			if err := deadletters.Keep(t.Context(), pool, "effect", m, errors.New(strings.Repeat("ä", 10_000))); err != nil {
				t.Fatal(err)
			}
		}
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM platform.dead_letters`).Scan(&n); err != nil || n != 3 {
		t.Fatalf("%d dead letters, %v; want 3", n, err)
	}
}

func TestNewerEventsRaiseAnAlarmAndAreNotKept(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	cause := fmt.Errorf("%w: layout 2", bus.ErrNewer)
	if err := deadletters.Keeper(pool)(t.Context(), "effect", bus.Msg{ID: ids.New(), Subject: "events.a"}, cause); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM platform.dead_letters`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d dead letters, %v; want none", n, err)
	}
	alarms, err := alarm.List(t.Context(), pool, alarm.Filter{Open: true, Limit: 10})
	if err != nil || len(alarms) != 1 || alarms[0].Code != "newer-events" || alarms[0].Subject != "effect" {
		t.Errorf("alarms %+v, %v", alarms, err)
	}
}
