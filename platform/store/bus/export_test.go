package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/ids"
)

// Skips reports whether the consumer of an instance that begins with a stream skips a
// message.
func Skips(created, now time.Time, id ids.ID) bool {
	c := new(consumer)
	c.join(&jetstream.StreamInfo{Created: created, TimeStamp: now})
	return c.forgets(id)
}

// Trim runs one round of the trimmer.
func Trim(ctx context.Context, b *Bus) error { return b.trim(ctx) }

// Messages returns how many messages a stream contains.
func Messages(ctx context.Context, b *Bus, stream string) (uint64, error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.Msgs, nil
}

// LeaveTimers makes the stream of timers, as releases up to 0.10.0 did.
func LeaveTimers(ctx context.Context, b *Bus) error {
	_, err := b.js.CreateStream(ctx, jetstream.StreamConfig{Name: streamDelayed, Subjects: []string{"delayed.>"}})
	return err
}

// DeleteEvents removes the stream of events.
func DeleteEvents(ctx context.Context, b *Bus) error { return b.js.DeleteStream(ctx, streamEvents) }

// Backoff is the delay after a failed attempt.
var Backoff = backoff

// BoundsFor returns the sizes of the streams with that much free disk space.
func BoundsFor(cfg Config, free int64) (queue, all int64) {
	b := &Bus{events: cfg.EventsMaxMiB << 20}
	for _, q := range cfg.Queues {
		b.queues = append(b.queues, &Queue{cfg: q})
	}
	b.fit(free)
	return b.queues[0].cfg.MaxBytes, b.queues[0].cfg.MaxBytes + b.events
}

// RetryLevel is the level at which a failed attempt is logged.
var RetryLevel = retryLevel

// Consumer returns the state of a shared consumer on EVENTS.
func Consumer(ctx context.Context, b *Bus, name string) (*jetstream.ConsumerInfo, error) {
	c, err := b.js.Consumer(ctx, streamEvents, name)
	if err != nil {
		return nil, err
	}
	return c.CachedInfo(), nil
}

// Unclaimed reports whether no instance uses a consumer.
func Unclaimed(b *Bus, c *jetstream.ConsumerInfo, now time.Time) bool { return b.unclaimed(c, now) }
