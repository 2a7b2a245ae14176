package bus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/require"
)

func done(context.Context, bus.Msg) error { return nil }

func TestSubscribeDeletesConsumersOfAnotherVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *bus.Bus {
		return bustest.Open(t, bustest.In(dir), func(c *bus.Config) { c.EventsMaxMiB = 1 })
	}
	old := open()
	stop, err := old.Subscribe(t.Context(), []bus.Subscription{
		{Name: "kept", Filter: "events.a", Handle: done}, {Name: "renamed", Filter: "events.a", Handle: done},
	}, noDeadLetters(t))
	require.NoError(t, err)
	stop(t.Context())
	require.NoError(t, old.Close(t.Context()))

	b := open()
	subscribe(t, b, noDeadLetters(t), bus.Subscription{Name: "kept", Filter: "events.a", Handle: done})
	data := make([]byte, 50<<10)
	for range 3 { // three times the stream's bound
		for err = nil; err == nil; {
			err = b.Publish(t.Context(), "events.a", ids.New(), data)
		}
		require.ErrorIs(t, err, bus.ErrFull)
		eventually(t, 5*time.Second, "the consumer that exists makes room", func() bool {
			require.NoError(t, bus.Trim(t.Context(), b))
			n, err := bus.Messages(t.Context(), b, "EVENTS")
			return err == nil && n < 10 // half of the stream
		})
	}
}

// Another instance may be of another version: its consumers are deleted only
// once no instance has used them for minutes.
func TestConsumersOfALiveVersionStay(t *testing.T) {
	t.Parallel()
	o := bustest.StartServer(t)
	first, second := bustest.Open(t, bustest.On(o.URL)), bustest.Open(t, bustest.On(o.URL))
	got := make(chan string, 10)
	subscribe(t, first, noDeadLetters(t), bus.Subscription{Name: "first", Filter: "events.a", Handle: func(_ context.Context, m bus.Msg) error {
		got <- string(m.Data)
		return nil
	}})
	mustPublish(t, first, "events.a", "before")
	receive(t, 5*time.Second, "the first event", got)
	subscribe(t, second, noDeadLetters(t), bus.Subscription{Name: "second", Filter: "events.a", Handle: done})
	mustPublish(t, first, "events.a", "after")
	require.Equal(t, "event of a consumer that stays", receive(t, 5*time.Second, "the second event", got), "after")
	now := time.Now()
	c, err := bus.Consumer(t.Context(), second, "first")
	require.NoError(t, err)
	later := now.Add(time.Hour)
	c.NumWaiting = 1
	require.Equal(t, "unclaimed while an instance waits on it", bus.Unclaimed(second, c, later), false)
	c.NumWaiting = 0
	// A consumer is unclaimed if this version does not have it and no instance has used it for minutes.
	unclaimed := fmt.Sprint(bus.Unclaimed(second, c, now), bus.Unclaimed(second, c, later), bus.Unclaimed(first, c, later))
	require.Equal(t, "unclaimed", unclaimed, "false true false")
}
