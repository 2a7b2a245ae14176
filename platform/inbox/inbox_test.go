package inbox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"stampede/platform/alarm"
	"stampede/platform/bus"
	"stampede/platform/bus/bustest"
	"stampede/platform/ids"
	"stampede/platform/inbox"
	"stampede/platform/pg"
	"stampede/platform/pgtest"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

// fresh commits one call.
func fresh(t testing.TB, pool *pgxpool.Pool, consumer string, msgIDs ...ids.ID) map[ids.ID]bool {
	t.Helper()
	var got map[ids.ID]bool
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) (err error) {
		got, err = inbox.Fresh(t.Context(), tx, consumer, msgIDs)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFreshIsTrueOnceForEachConsumer(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	a, b, c := ids.New(), ids.New(), ids.New()
	if got := fresh(t, pool, "writer", b, a, b, a); len(got) != 2 || !got[a] || !got[b] {
		t.Fatalf("first time: %v, want both", got)
	}
	if got := fresh(t, pool, "writer", a, c, b); len(got) != 1 || !got[c] {
		t.Fatalf("second time: %v, want only %s", got, c)
	}
	if got := fresh(t, pool, "other", a); !got[a] {
		t.Fatalf("another consumer: %v, want %s", got, a)
	}
	if got := fresh(t, pool, "writer"); len(got) != 0 {
		t.Fatalf("nothing asked: %v", got)
	}
}

func TestRolledBackMessageIsFreshAgain(t *testing.T) {
	t.Parallel()
	pool, id, errStop := pgtest.DB(t), ids.New(), errors.New("the effect failed")
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		got, err := inbox.Fresh(t.Context(), tx, "writer", []ids.ID{id})
		if err != nil || !got[id] {
			t.Errorf("fresh: %v, %v", got, err)
		}
		return errStop
	})
	if !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	if got := fresh(t, pool, "writer", id); !got[id] {
		t.Fatal("the message that had no effect is not fresh")
	}
}

func TestDayComesFromTheMessage(t *testing.T) {
	t.Parallel()
	pool, id := pgtest.DB(t), ids.New()
	yesterday := time.Now().Add(-24 * time.Hour).UnixMilli()
	for i := range 6 {
		id[i] = byte(yesterday >> (40 - 8*i))
	}
	old := ids.ID{0: 1, 6: 0x70, 8: 0x80, 15: 1} // a day without a partition of its own
	fresh(t, pool, "writer", id, old)
	for _, id := range []ids.ID{id, old} {
		var day time.Time
		if err := pool.QueryRow(t.Context(), `SELECT day FROM platform.inbox WHERE message_id = $1`, id).Scan(&day); err != nil {
			t.Fatal(err)
		}
		if want := id.Time().Truncate(24 * time.Hour); !day.Equal(want) {
			t.Errorf("day of %s is %s, want %s", id, day, want)
		}
	}
	if got := fresh(t, pool, "writer", id, old); len(got) != 0 {
		t.Errorf("redelivery is fresh: %v", got)
	}
}

func TestMessageWithoutIDIsAnError(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := inbox.Fresh(t.Context(), tx, "writer", []ids.ID{ids.New(), {}})
		return err
	})
	if err == nil {
		t.Fatal("a message without an id passed")
	}
}

// Batches that share messages in different orders: each message is fresh for
// exactly one, and nobody deadlocks.
func TestConcurrentBatchesShareMessages(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	const messages, workers = 200, 8
	all := make([]ids.ID, messages)
	for i := range all {
		all[i] = ids.New()
	}
	var total atomic.Int64
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			mine := make([]ids.ID, 0, messages)
			for i := range all {
				mine = append(mine, all[(i*(2*w+1)+w)%messages])
			}
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			got, err := inbox.Fresh(t.Context(), tx, "writer", mine)
			if err == nil {
				err = tx.Commit(t.Context())
			}
			if err != nil {
				t.Errorf("worker %d: %v", w, err) // a deadlock shows here: nothing retries
			}
			total.Add(int64(len(got)))
		})
	}
	running.Wait()
	if n := total.Load(); n != messages {
		t.Fatalf("%d times fresh, want %d", n, messages)
	}
}

// A handler that fails for good leaves a dead letter and an alarm, and the
// message does not come again.
func TestFailingHandlerLeavesDeadLetterAndAlarm(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	var handled atomic.Int64
	sub := bus.Subscription{Name: "effect", Filter: "events.a", MaxAttempts: 2, Handle: func(context.Context, bus.Msg) error {
		handled.Add(1)
		return errors.New("cannot: \x00\xff broken text")
	}}
	stop, err := b.Subscribe(t.Context(), []bus.Subscription{sub}, inbox.DeadLetters(pool))
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
	pgtest.Eventually(t, 10*time.Second, func() bool { return len(letters()) == 1 }, "the dead letter is kept")
	l := letters()[0]
	if l.Consumer != "effect" || l.Subject != "events.a" || l.MessageID != id.String() || string(l.Payload) != "payload" ||
		!strings.Contains(l.Error, "broken text") || l.Attempts != 2 {
		t.Errorf("dead letter %+v", l)
	}
	alarms, err := alarm.List(t.Context(), pool, alarm.Filter{Open: true, Limit: 10})
	if err != nil || len(alarms) != 1 || alarms[0].Code != alarm.DeadLetter || alarms[0].Subject != "effect" {
		t.Errorf("alarms %+v, %v", alarms, err)
	}
	// Acknowledged: the next message is the only one that comes.
	if err := b.Publish(t.Context(), "events.a", ids.New(), nil); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, 10*time.Second, func() bool { return len(letters()) == 2 }, "the second dead letter is kept")
	if n := handled.Load(); n != 4 {
		t.Errorf("handled %d times, want 4", n)
	}
}

func TestDeadMayBeRepeated(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	for _, m := range []bus.Msg{{ID: ids.New(), Subject: "events.a"}, {Seq: 7, Subject: "events.a"}, {Seq: 8, Subject: "events.a"}} {
		for range 2 {
			if err := inbox.Dead(t.Context(), pool, "effect", m, errors.New(strings.Repeat("ä", 10_000))); err != nil {
				t.Fatal(err)
			}
		}
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM platform.dead_letters`).Scan(&n); err != nil || n != 3 {
		t.Fatalf("%d dead letters, %v; want 3", n, err)
	}
}
