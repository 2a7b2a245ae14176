package bus_test

import (
	"context"
	"errors"
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
		if !errors.Is(errs[i], want) {
			t.Errorf("message %d: %v, want %v", i, errs[i], want)
		}
	}
	if n, err := bus.Messages(t.Context(), b, "EVENTS"); err != nil || n != 2 {
		t.Fatalf("EVENTS contains %d, %v; want 2", n, err)
	}
}

func TestCanceledPublishIsUnknownOnlyOnceSent(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Publish(ctx, "grants.1", ids.New(), nil); !errors.Is(err, bus.ErrUnhealthy) || !errors.Is(err, context.Canceled) {
		t.Fatalf("publish with an ended context: %v, want ErrUnhealthy because nothing was sent", err)
	}
	if n, err := bus.Messages(t.Context(), b, "GRANTS"); err != nil || n != 0 {
		t.Fatalf("backlog = %d, %v; want 0", n, err)
	}
}
