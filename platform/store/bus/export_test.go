package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/ids"
)

// SetGrantsAckWait shortens a test's wait for an abandoned batch.
func SetGrantsAckWait(b *Bus, d time.Duration) { b.grantsAckWait = d }

// SkippedAfter shortens a test's wait for a message that its consumer skipped.
func SkippedAfter(d time.Duration) func(*Config) { return func(c *Config) { c.skippedAfter = d } }

// StalledAfter shortens the time after which waiting grants stand still.
func StalledAfter(d time.Duration) func(*Config) { return func(c *Config) { c.stalledAfter = d } }

// StoodStill returns how long nothing has left GRANTS at the last of several looks,
// one a second, each of the stream's last sequence and its number of messages.
func StoodStill(looks ...[2]uint64) time.Duration {
	var l *backlog
	for i, s := range looks {
		l = l.next(jetstream.StreamState{LastSeq: s[0], Msgs: s[1]}, time.Unix(int64(i), 0))
	}
	return l.at.Sub(l.since)
}

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

// Backoff and BoundsFor have unit tests.
var Backoff = backoff

func BoundsFor(cfg Config, free int64) (grants, events, delayed int64) {
	b := boundsFor(cfg, free)
	return b.grants, b.events, b.delayed
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
