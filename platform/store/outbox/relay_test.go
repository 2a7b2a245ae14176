package outbox_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/store/pulse"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func relay(pool *pgxpool.Pool, b *bus.Bus) *outbox.Relay { return pulsed(pool, b, nil) }

func pulsed(pool *pgxpool.Pool, b *bus.Bus, p *pulse.Pulse) *outbox.Relay {
	return outbox.New(pool, b, p, time.Hour, alarm.OutboxRefused.Raise, alarm.OutboxFailed.Raise, discard(), nil)
}

// add commits one event.
func add(t testing.TB, pool *pgxpool.Pool, data string) ids.ID {
	t.Helper()
	var id ids.ID
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) (err error) {
		id, err = outbox.Append(t.Context(), tx, "events.test", []byte(data))
		return err
	})
	require.NoError(t, err)
	return id
}

func unsent(t testing.TB, pool *pgxpool.Pool) int {
	t.Helper()
	return pgtest.Read[int](t, pool, `SELECT count(*) FROM platform.outbox WHERE sent_at IS NULL`)
}

func allSent(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	pgtest.Eventually(t, 30*time.Second, func() bool { return unsent(t, pool) == 0 }, "every row is sent")
}

// consume collects what arrives on EVENTS.
func consume(t testing.TB, b *bus.Bus) *arrivals {
	t.Helper()
	a := &arrivals{}
	stop, err := b.Subscribe(t.Context(), []bus.Subscription{{
		Name: "test", Filter: "events.>",
		Handle: func(_ context.Context, m bus.Msg) error { a.add(m); return nil },
	}},
		func(_ context.Context, _ string, m bus.Msg, cause error) error {
			t.Errorf("dead letter %s: %v", m.ID, cause)
			return nil
		})
	require.NoError(t, err)
	t.Cleanup(func() { stop(context.Background()) })
	return a
}

type arrivals struct {
	mu  sync.Mutex
	all []bus.Msg
}

func (a *arrivals) add(m bus.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, m)
}

func (a *arrivals) list() []bus.Msg {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]bus.Msg(nil), a.all...)
}

// stored is list in the stream's order: what a busy consumer gets again comes late.
func (a *arrivals) stored() []bus.Msg {
	all := a.list()
	slices.SortFunc(all, func(a, b bus.Msg) int { return cmp.Compare(a.Seq, b.Seq) })
	return slices.CompactFunc(all, func(a, b bus.Msg) bool { return a.Seq == b.Seq })
}

func TestRelaySendsInOrderUnderTheRowsID(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	got := consume(t, b)
	const rows = 600 // several windows
	want := make([]ids.ID, rows)
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) (err error) {
		for i := range want {
			if want[i], err = outbox.Append(t.Context(), tx, "events.test", map[string]int{"n": i}); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	pgtest.Work(t, relay(pool, b).Run)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(got.stored()) >= rows }, "every event arrives")
	for i, m := range got.stored() {
		if m.ID != want[i] || string(m.Data) != `{"n":`+strconv.Itoa(i)+`}` {
			t.Fatalf("event %d is %s %s, want %s", i, m.ID, m.Data, want[i])
		}
	}
	allSent(t, pool)
}

func TestWakeSendsWithoutPolling(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	got := consume(t, b)
	r := relay(pool, b)
	outbox.NeverPoll(r)
	pgtest.Work(t, r.Run)
	for i := range 3 {
		add(t, pool, "x")
		r.Wake()
		pgtest.Eventually(t, 30*time.Second, func() bool { return len(got.list()) == i+1 }, "the event arrives")
	}
}

// A row whose writer died before it could wake a relay is sent by the next pulse.
func TestPulseSendsWithoutPolling(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	p := pulse.New(pool, discard(), nil)
	r := pulsed(pool, b, p)
	outbox.NeverPoll(r)
	pgtest.Work(t, p.Worker().Run)
	pgtest.Work(t, r.Run)
	for _, data := range []string{"first", "second"} {
		add(t, pool, data)
		allSent(t, pool)
	}
}

// The relay dies after publishing and before marking. The next one publishes
// again, and the stream keeps one.
func TestCrashBetweenPublishAndMark(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	got := consume(t, b)
	first := add(t, pool, "first")
	r := relay(pool, b)
	var deaths atomic.Int64
	outbox.DieBeforeMark(r, func() error {
		if deaths.Add(1) <= 2 {
			return errors.New("power cut")
		}
		return nil
	})
	pgtest.Work(t, r.Run)
	allSent(t, pool)
	require.Equal(t, "the row was marked in the third window", deaths.Load() >= 3, true)
	second := add(t, pool, "second")
	r.Wake()
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(got.list()) >= 2 }, "both events arrive")
	if l := got.list(); len(l) != 2 || l[0].ID != first || l[1].ID != second {
		t.Fatalf("arrived: %v, want %s and %s once each", l, first, second)
	}
}

// A transaction that begins first and commits last has the smaller id. Its
// event is sent although a larger id is already marked.
func TestLateCommitIsNotSkipped(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	got := consume(t, b)
	r := relay(pool, b)
	pgtest.Work(t, r.Run)
	late := pgtest.Begin(t, pool)
	smaller, err := outbox.Append(t.Context(), late, "events.test", []byte("late"))
	require.NoError(t, err)
	larger := add(t, pool, "early")
	require.Equal(t, fmt.Sprintf("ids %s and %s rise", smaller, larger), larger.String() > smaller.String(), true)
	allSent(t, pool)
	require.NoError(t, late.Commit(t.Context()))
	r.Wake()
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(got.list()) == 2 }, "both events arrive")
	l := got.list()
	require.Equal(t, "order of arrival", []ids.ID{l[0].ID, l[1].ID}, []ids.ID{larger, smaller})
}

func TestRowsWaitWhileEventsIsFull(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	b := bustest.Open(t, func(c *bus.Config) { c.EventsMaxMiB = 1 })
	var err error
	for err == nil {
		err = b.Publish(t.Context(), "events.filler", ids.New(), make([]byte, 100<<10))
	}
	require.ErrorIs(t, err, bus.ErrFull)
	id := add(t, pool, string(make([]byte, 200<<10)))
	r := relay(pool, b)
	tried := make(chan struct{}, 100)
	outbox.DieBeforeMark(r, func() error { tried <- struct{}{}; return nil })
	pgtest.Work(t, r.Run)
	for range 3 {
		<-tried
	}
	require.Equal(t, "rows that wait", unsent(t, pool), 1)
	got := consume(t, b) // from here on the trimmer makes room
	allSent(t, pool)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		l := got.list()
		return len(l) > 0 && l[len(l)-1].ID == id
	}, "the row that waited arrives")
}

func TestRelayOutlivesPostgresAndBus(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	dir := t.TempDir()
	gone := bustest.Open(t, bustest.In(dir))
	r := relay(pool, gone)
	tried := make(chan struct{}, 1000)
	outbox.DieBeforeMark(r, func() error { tried <- struct{}{}; return nil })
	stop := pgtest.Work(t, r.Run)
	require.NoError(t, gone.Close(t.Context())) // equivalent to a long bus outage
	add(t, pool, "during the outage")
	for range 3 {
		<-tried
	}
	// Postgres terminates all connections.
	if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	for len(tried) > 0 {
		<-tried
	}
	<-tried
	pool.Reset() // this test's own connections were terminated as well
	require.Equal(t, "rows that wait", unsent(t, pool), 1)
	stop()

	b := bustest.Open(t, bustest.In(dir))
	got := consume(t, b)
	pgtest.Work(t, relay(pool, b).Run)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(got.list()) == 1 }, "the event arrives")
	allSent(t, pool)
}

// Two instances run a relay each: every row is sent, none twice, whichever
// relay is woken.
func TestTwoRelaysShareOneDatabase(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	got := consume(t, b)
	relays := []*outbox.Relay{relay(pool, b), relay(pool, b)}
	var inside, windows atomic.Int64
	for _, r := range relays {
		outbox.DieBeforeMark(r, func() error {
			if inside.Add(1) > 1 {
				t.Error("two relays publish concurrently")
			}
			defer inside.Add(-1)
			if windows.Add(1) <= 3 {
				<-time.After(50 * time.Millisecond) // time for the other relay to interfere
			}
			return nil
		})
		pgtest.Work(t, r.Run)
	}
	const rows = 100
	for i := range rows {
		add(t, pool, strconv.Itoa(i))
		relays[i%2].Wake()
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(got.list()) >= rows }, "every event arrives")
	allSent(t, pool)
	seen := make(map[ids.ID]bool)
	for _, m := range got.list() {
		require.Equal(t, m.ID.String()+" arrives twice", seen[m.ID], false)
		seen[m.ID] = true
	}
}

func TestAppendRefusesUnsendableEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	for name, try := range map[string]struct {
		subject string
		payload any
	}{
		"not on EVENTS": {"grants.1", "x"},
		"wildcard":      {"events.*", "x"},
		"too large":     {"events.a", make([]byte, outbox.MaxPayloadBytes+1)},
		"not JSON":      {"events.a", make(chan int)},
	} {
		err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := outbox.Append(t.Context(), tx, try.subject, try.payload)
			return err
		})
		require.Equal(t, name+": refused", err != nil, true)
	}
	// A rolled-back event is not sent.
	errStop := errors.New("stop")
	if err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := outbox.Append(t.Context(), tx, "events.a", nil); err != nil {
			return err
		}
		return errStop
	}); !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	require.Equal(t, "rows that wait", unsent(t, pool), 0)
}
