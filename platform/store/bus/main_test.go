package bus_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdDirEnv); dir != "" {
		holdUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
}

// eventually polls cond until it is true; the bus has no signal for what other
// goroutines and servers do.
func eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
		<-tick.C
	}
}

// receive waits for a value on ch.
func receive[T any](t testing.TB, within time.Duration, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(within):
		t.Fatalf("not within %s: %s", within, what)
		panic("unreachable")
	}
}

func mustPublish(t testing.TB, b *bus.Bus, subject, data string) ids.ID {
	t.Helper()
	id := ids.New()
	require.NoError(t, b.Publish(t.Context(), subject, id, []byte(data)))
	return id
}

// noDeadLetters fails the test when a message becomes a dead letter.
func noDeadLetters(t testing.TB) bus.DeadLetters {
	t.Helper()
	return func(_ context.Context, consumer string, m bus.Msg, cause error) error {
		t.Errorf("%s gave up on %s: %v", consumer, m.Subject, cause)
		return nil
	}
}

func subscribe(t testing.TB, b *bus.Bus, dead bus.DeadLetters, subs ...bus.Subscription) {
	t.Helper()
	stop, err := b.Subscribe(t.Context(), subs, dead)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		stop(ctx)
	})
}

// acking acknowledges each grant and hands it to then.
func acking(t testing.TB, then func(bus.Msg)) func(context.Context, []bus.Msg) {
	t.Helper()
	return func(_ context.Context, batch []bus.Msg) {
		for _, m := range batch {
			if err := m.Ack(); err != nil {
				t.Errorf("ack: %v", err)
			}
			then(m)
		}
	}
}

// drained waits until every grant is acknowledged.
func drained(t testing.TB, b *bus.Bus) {
	t.Helper()
	eventually(t, 30*time.Second, "every grant is acknowledged", func() bool {
		n, err := bus.Messages(t.Context(), b, "GRANTS")
		return err == nil && n == 0
	})
}

// into is a handler that sends what a message contains to a channel.
func into(ch chan<- string) func(context.Context, bus.Msg) error {
	return func(_ context.Context, m bus.Msg) error {
		ch <- string(m.Data)
		return nil
	}
}

// consumeGrants runs a consumer until the test ends or stop is called.
func consumeGrants(t testing.TB, b *bus.Bus, handle func(ctx context.Context, batch []bus.Msg)) (stop func()) {
	t.Helper()
	return pgtest.Work(t, func(ctx context.Context) error { return b.Queue("GRANTS").Consume(ctx, handle) })
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
