package bus_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/require"
)

// An older version leaves what only a newer one can read on the stream, however
// much that is, and goes on with the rest. The broker delivers at most 1,000
// unacknowledged messages to a consumer by default.
func TestEventsOfANewerVersionWaitForIt(t *testing.T) {
	t.Parallel()
	const newer = 1001
	b := bustest.Open(t)
	for range newer {
		mustPublish(t, b, "events.a", "\x02{}")
	}
	mustPublish(t, b, "events.a", "{}")
	var reports, read atomic.Int64
	handled := make(chan bus.Msg, 1)
	older := bus.Subscription{Name: "effect", Filter: "events.a", MaxAttempts: 1, Handle: func(_ context.Context, m bus.Msg) error {
		handled <- m
		return nil
	}}
	stop, err := b.Subscribe(t.Context(), []bus.Subscription{older}, func(_ context.Context, consumer string, m bus.Msg, cause error) error {
		if consumer != "effect" || m.ID == (ids.ID{}) || !errors.Is(cause, bus.ErrNewer) {
			t.Errorf("report of %s: %v", consumer, cause)
		}
		reports.Add(1)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, "handled", string(receive(t, 30*time.Second, "the event that this version reads", handled).Data), "{}")
	require.Equal(t, "reports", reports.Load(), 1)
	stop(t.Context())
	upgraded := older
	upgraded.Layout, upgraded.Handle = 2, func(context.Context, bus.Msg) error { read.Add(1); return nil }
	subscribe(t, b, noDeadLetters(t), upgraded)
	eventually(t, 30*time.Second, "the newer version handles its events", func() bool { return read.Load() == newer })
}
