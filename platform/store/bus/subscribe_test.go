package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/require"
)

func TestTwoInstancesShareTheWork(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	b := bustest.Open(t, func(c *bus.Config) { c.Metrics = metrics })
	var handled atomic.Int64
	sub := bus.Subscription{
		Name: "effect", Filter: "events.>", Parallel: 2,
		Handle: func(context.Context, bus.Msg) error { handled.Add(1); return nil },
	}
	subscribe(t, b, noDeadLetters(t), sub)
	subscribe(t, b, noDeadLetters(t), sub)
	const none = `# HELP stampede_bus_messages_handled_total Messages delivered to a consumer, by outcome: handled, retried, dead, dropped, newer, skipped.
# TYPE stampede_bus_messages_handled_total counter
stampede_bus_messages_handled_total{consumer="effect",outcome="dead"} 0
stampede_bus_messages_handled_total{consumer="order-writer",outcome="handled"} 0
`
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(none), "stampede_bus_messages_handled_total"))
	const events = 60
	for range events {
		mustPublish(t, b, "events.a", "x")
	}
	eventually(t, 5*time.Second, "every event is handled", func() bool { return handled.Load() >= events })
	require.Equal(t, "handled", handled.Load(), events)
}

func TestFailingHandlerRetriesThenLeavesADeadLetter(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t)
	broken := errors.New("broken")
	type letter struct {
		consumer string
		m        bus.Msg
		cause    error
	}
	letters := make(chan letter, 10)
	var refusedOnce atomic.Bool
	dead := func(_ context.Context, consumer string, m bus.Msg, cause error) error {
		letters <- letter{consumer, m, cause}
		return nil
	}
	var attempts, healthy atomic.Int64
	subscribe(t, b, dead,
		bus.Subscription{Name: "failing", Filter: "events.a", MaxAttempts: 3, Handle: func(context.Context, bus.Msg) error {
			if attempts.Add(1) == 2 {
				panic("an error like any other")
			}
			return broken
		}},
		bus.Subscription{Name: "healthy", Filter: "events.a", Handle: func(context.Context, bus.Msg) error {
			healthy.Add(1)
			if !refusedOnce.Swap(true) {
				return errors.New("once")
			}
			return nil
		}})
	mustPublish(t, b, "events.b", "of neither")
	id := mustPublish(t, b, "events.a", "payload")
	l := receive(t, 5*time.Second, "the dead letter", letters)
	if l.consumer != "failing" || l.m.ID != id || string(l.m.Data) != "payload" || l.m.Attempt != 3 || !errors.Is(l.cause, broken) {
		t.Fatalf("dead letter %+v", l)
	}
	eventually(t, 5*time.Second, "the other consumer had its retry", func() bool { return healthy.Load() == 2 })
	// Acknowledged: only the later message is delivered.
	mustPublish(t, b, "events.a", "second")
	if l := receive(t, 5*time.Second, "the second dead letter", letters); string(l.m.Data) != "second" || attempts.Load() != 6 {
		t.Fatalf("second dead letter %q after %d attempts, want 6", l.m.Data, attempts.Load())
	}
}

func TestBackoffDoublesWithinItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1<<30).Draw(t, "attempt")
		d, next := bus.Backoff(n), bus.Backoff(n+1)
		if d < 100*time.Millisecond || d > 30*time.Second || next < d || next > 2*d {
			t.Fatalf("backoff(%d) = %s, then %s", n, d, next)
		}
	})
}

func TestExpectedErrorsAreLoggedQuietlyAtFirst(t *testing.T) {
	t.Parallel()
	cause := errors.New("being loaded")
	marked := fmt.Errorf("release: %w", bus.Expected(cause))
	if !errors.Is(marked, cause) || !bus.IsExpected(marked) || bus.IsExpected(cause) || bus.Expected(nil) != nil {
		t.Fatal("the mark changes the error or is lost")
	}
	for attempt, want := range map[int]slog.Level{1: slog.LevelDebug, 8: slog.LevelDebug, 9: slog.LevelWarn} {
		require.Equal(t, fmt.Sprint("level of attempt ", attempt), bus.RetryLevel(marked, attempt), want)
		require.Equal(t, fmt.Sprint("level of attempt of an unmarked error ", attempt), bus.RetryLevel(cause, attempt), slog.LevelWarn)
	}
}

func TestPerInstanceConsumersEachGetNewMessages(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t)
	mustPublish(t, b, "events.a", "old")
	first, second := make(chan string, 10), make(chan string, 10)
	to := func(ch chan string) bus.Subscription {
		return bus.Subscription{
			Name: "push", Filter: "events.a", PerInstance: true,
			Handle: func(_ context.Context, m bus.Msg) error { ch <- string(m.Data); return errors.New("not retried") },
		}
	}
	subscribe(t, b, nil, to(first))
	subscribe(t, b, nil, to(second))
	for _, data := range []string{"1", "2"} {
		mustPublish(t, b, "events.b", "of neither")
		mustPublish(t, b, "events.a", data)
		for _, ch := range []chan string{first, second} {
			require.Equal(t, "event", receive(t, 5*time.Second, "the event", ch), data)
		}
	}
}

func TestStopWaitsForTheHandlerThenCancelsIt(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t)
	started, ended := make(chan struct{}), make(chan error, 1)
	stop, err := b.Subscribe(t.Context(), []bus.Subscription{{
		Name: "slow", Filter: "events.a",
		Handle: func(ctx context.Context, _ bus.Msg) error {
			close(started)
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		},
	}}, noDeadLetters(t))
	require.NoError(t, err)
	mustPublish(t, b, "events.a", "x")
	receive(t, 5*time.Second, "the handler", started)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	stop(ctx)
	require.ErrorIs(t, receive(t, time.Second, "the handler's end", ended), context.Canceled)
	require.Equal(t, "stop waited for the handler", ctx.Err() != nil, true)
}

func TestSubscribeRefusesInvalidSubscriptions(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t)
	ok := func(context.Context, bus.Msg) error { return nil }
	for want, subs := range map[string][]bus.Subscription{
		"only letters":  {{Name: "with.dot", Filter: "events.>", Handle: ok}},
		"duplicate":     {{Name: "a", Filter: "events.>", Handle: ok}, {Name: "a", Filter: "events.a", Handle: ok}},
		"not on EVENTS": {{Name: "a", Filter: "grants.>", Handle: ok}},
		"no handler":    {{Name: "a", Filter: "events.>"}},
		"every worker":  {{Name: "a", Filter: "events.>", PerInstance: true, Parallel: 2, Handle: ok}},
	} {
		_, err := b.Subscribe(t.Context(), subs, noDeadLetters(t))
		require.Contains(t, "refusal", fmt.Sprint(err), want)
	}
	if _, err := b.Subscribe(t.Context(), []bus.Subscription{{Name: "a", Filter: "events.>", Handle: ok}}, nil); err == nil {
		t.Error("a shared consumer without dead letters was accepted")
	}
}

func TestBroadcastReachesCurrentSubscribers(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t)
	got := make(chan string, 10)
	stop, err := b.OnBroadcast("broadcast.test", func(data []byte) { got <- string(data) })
	require.NoError(t, err)
	require.NoError(t, b.Broadcast("broadcast.test", []byte("hello")))
	require.Equal(t, "broadcast", receive(t, 5*time.Second, "the broadcast", got), "hello")
	stop()
	require.NoError(t, b.Broadcast("broadcast.test", []byte("no subscriber")))
	// A second subscriber gets only later broadcasts, and shows that the first is gone.
	marker := make(chan string, 10)
	stop, err = b.OnBroadcast("broadcast.test", func(data []byte) { marker <- string(data) })
	require.NoError(t, err)
	defer stop()
	require.NoError(t, b.Broadcast("broadcast.test", []byte("marker")))
	require.Equal(t, "the second subscriber's", receive(t, 5*time.Second, "the marker", marker), "marker")
	require.Equal(t, "calls of a stopped subscriber", len(got), 0)
}

func TestTrimDropsWhatAllHaveConsumed(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, func(c *bus.Config) { c.EventsMaxMiB = 1 })
	data := make([]byte, 50<<10)
	var published int
	var err error
	for err == nil {
		if err = b.Publish(t.Context(), "events.a", ids.New(), data); err == nil {
			published++
		}
	}
	require.ErrorIs(t, err, bus.ErrFull)
	trim := func() uint64 {
		t.Helper()
		require.NoError(t, bus.Trim(t.Context(), b))
		n, err := bus.Messages(t.Context(), b, "EVENTS")
		require.NoError(t, err)
		return n
	}
	require.Equal(t, "trimmed before any consumer acknowledged, to", trim(), uint64(published))
	var handled atomic.Int64
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	subscribe(t, b, noDeadLetters(t),
		bus.Subscription{Name: "fast", Filter: "events.a", Handle: func(context.Context, bus.Msg) error { return nil }},
		bus.Subscription{Name: "idle", Filter: "events.other", Handle: func(context.Context, bus.Msg) error { return nil }},
		bus.Subscription{Name: "slow", Filter: "events.a", Handle: func(_ context.Context, m bus.Msg) error {
			if m.Seq > 5 {
				<-gate
			}
			handled.Add(1)
			return nil
		}})
	eventually(t, 5*time.Second, "the slow one has five", func() bool { return handled.Load() == 5 })
	eventually(t, 5*time.Second, "five are trimmed", func() bool { return trim() == uint64(published-5) })
	mustPublish(t, b, "events.a", "fits again")
	open()
	eventually(t, 15*time.Second, "the rest is trimmed below half", func() bool { return trim() < uint64(published)/2 })
}
