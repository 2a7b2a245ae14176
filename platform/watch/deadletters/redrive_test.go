package deadletters_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/deadletters"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func kept(t *testing.T, pool *pgxpool.Pool) []deadletters.Letter {
	t.Helper()
	list, err := deadletters.List(t.Context(), pool, deadletters.Filter{Limit: 10})
	require.NoError(t, err)
	return list
}

// relay sends what the outbox has until stop.
func relay(t *testing.T, pool *pgxpool.Pool, b *bus.Bus) (stop func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	return pgtest.Work(t, outbox.New(pool, b, nil, time.Hour, alarm.OutboxRefused.Raise, alarm.OutboxFailed.Raise, log, nil).Run)
}

// A message that its handler gives up on becomes a letter and an alarm. Redriven, it
// reaches only the consumer that gave up on it, unchanged.
func TestRedriveReachesItsConsumerAlone(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	var repaired atomic.Bool
	var others atomic.Int64
	healed := make(chan bus.Msg, 10)
	stop, err := b.Subscribe(t.Context(), []bus.Subscription{
		{Name: "broken", Filter: "events.order.*", MaxAttempts: 1, Handle: func(_ context.Context, m bus.Msg) error {
			if !repaired.Load() {
				return errors.New("broken")
			}
			healed <- m
			return nil
		}},
		{Name: "other", Filter: "events.>", Handle: func(context.Context, bus.Msg) error { others.Add(1); return nil }},
	}, deadletters.Keeper(pool))
	require.NoError(t, err)
	defer stop(context.Background())
	defer relay(t, pool, b)()

	id := ids.New()
	require.NoError(t, b.Publish(t.Context(), "events.order.paid", id, []byte("payload")))
	letters := func() []deadletters.Letter { return kept(t, pool) }
	again := func() {
		t.Helper()
		pgtest.Eventually(t, 30*time.Second, func() bool { return len(letters()) == 1 }, "the letter is kept")
		l := letters()[0]
		require.Equal(t, "letter", l.Consumer+" "+l.Subject+" "+l.MessageID+" "+string(l.Payload), "broken events.order.paid "+id.String()+" payload")
		older, err := deadletters.List(t.Context(), pool, deadletters.Filter{Before: l.ID, Limit: 10})
		require.Equal(t, "letters older than the only one", fmt.Sprint(len(older), err), "0 <nil>")
		require.NoError(t, deadletters.Redrive(t.Context(), pool, b, l.ID))
		require.ErrorIs(t, deadletters.Redrive(t.Context(), pool, b, l.ID), deadletters.ErrNotFound)
	}
	again() // fails again and is stored again
	alarms, err := alarm.List(t.Context(), pool, alarm.Filter{Open: true, Limit: 10})
	if err != nil || len(alarms) != 1 || alarms[0].Code != "dead-letter" || alarms[0].Subject != "broken" {
		t.Errorf("alarms %+v, %v", alarms, err)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(letters()) == 1 }, "it failed again")
	repaired.Store(true)
	again()
	select {
	case m := <-healed:
		require.Equal(t, "redriven", []any{m.ID, m.Subject, string(m.Data), m.Attempt}, []any{id, "events.order.paid", "payload", 1})
	case <-time.After(30 * time.Second):
		t.Fatal("the redriven message did not arrive")
	}
	require.Equal(t, "deliveries to the other consumer", others.Load(), 1)
}

// Grants that the order writer gave up on are redriven to GRANTS, because EVENTS
// does not carry them. The letter exists until the stream has the message, and a
// letter that is written meanwhile is kept.
func TestRedriveOfGrantsReachesTheWriter(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	gone := bustest.Open(t)
	require.NoError(t, gone.Close(t.Context()))
	b := bustest.Open(t)
	letters := func() []deadletters.Letter { return kept(t, pool) }
	taken := make(chan bus.Msg, 10)
	ctx, cancel := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	var gaveUp atomic.Bool
	writer.Go(func() {
		_ = b.Queue(bustest.Grants().Name).Consume(ctx, func(ctx context.Context, batch []bus.Msg) {
			for _, m := range batch {
				if !gaveUp.Swap(true) {
					if err := deadletters.Keep(ctx, pool, "order-writer", m, errors.New("unreadable")); err != nil {
						t.Error(err)
					}
				} else {
					taken <- m
				}
				_ = m.Ack()
			}
		})
	})
	defer writer.Wait()
	defer cancel()

	// Within the time in which the stream drops duplicates.
	require.NoError(t, b.Publish(t.Context(), "grants.7", ids.New(), []byte("a batch")))
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(letters()) == 1 }, "the letter is kept")
	l := letters()[0]
	require.Equal(t, "redriven without a bus", deadletters.Redrive(t.Context(), pool, gone, l.ID) == nil, false)
	require.Equal(t, "letters after a redrive that failed", len(letters()), 1)
	require.NoError(t, deadletters.Redrive(t.Context(), pool, b, l.ID))
	select {
	case m := <-taken:
		if m.Subject != "grants.7" || string(m.Data) != "a batch" || m.ID.String() == l.MessageID {
			t.Errorf("redriven as %s %q under %s", m.Subject, m.Data, m.ID)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the redriven message did not arrive")
	}
	require.Equal(t, "letters left", len(letters()), 0)
	require.ErrorIs(t, deadletters.Redrive(t.Context(), pool, b, l.ID), deadletters.ErrNotFound)
}
