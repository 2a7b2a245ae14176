package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/require"
)

func TestFullGrantsRefuseAndRecover(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, func(c *bus.Config) { c.Queues[0].MaxBytes = 1 << 20 })
	data := make([]byte, 100<<10)
	var err error
	for range 20 {
		if err = b.Publish(t.Context(), "grants.1", ids.New(), data); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, bus.ErrFull)
	eventually(t, 3*time.Second, "health says full", func() bool { return errors.Is(b.Healthy(t.Context()), bus.ErrFull) })
	// The other streams still accept messages.
	mustPublish(t, b, "events.order.created", "{}")

	consumeGrants(t, b, acking(t, func(bus.Msg) {}))
	eventually(t, 3*time.Second, "health is good again", func() bool { return b.Healthy(t.Context()) == nil })
	mustPublish(t, b, "grants.1", "fits again")
}

func TestPublishAllAnswersForEachMessage(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t)
	twice := ids.New()
	errs := b.PublishAll(t.Context(), []bus.Outgoing{
		{Subject: "events.a", ID: twice, Data: []byte("1")},
		{Subject: "nowhere", ID: ids.New()},
		{Subject: "events.a"}, // no id
		{Subject: "events.a", ID: ids.New(), Data: make([]byte, 2<<20)},
		{Subject: "events.a", ID: twice, Data: []byte("1")},
		{Subject: "events.a", ID: ids.New(), Data: []byte("2")},
	})
	for i, want := range []error{nil, bus.ErrRefused, bus.ErrRefused, bus.ErrRefused, nil, nil} {
		require.ErrorIs(t, errs[i], want)
	}
	n, err := bus.Messages(t.Context(), b, "EVENTS")
	require.Equal(t, "messages of EVENTS", fmt.Sprint(n, err), "2 <nil>")
}

func TestCanceledPublishIsUnknownOnlyOnceSent(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := b.Publish(ctx, "grants.1", ids.New(), nil)
	require.ErrorIs(t, err, bus.ErrUnhealthy) // because nothing was sent
	require.ErrorIs(t, err, context.Canceled)
	n, err := bus.Messages(t.Context(), b, "GRANTS")
	require.Equal(t, "backlog", fmt.Sprint(n, err), "0 <nil>")
}
