package bus

import (
	"context"
	"time"
)

// SetGrantsAckWait shortens a test's wait for an abandoned batch.
func SetGrantsAckWait(b *Bus, d time.Duration) { b.grantsAckWait = d }

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
