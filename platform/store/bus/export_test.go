package bus

import (
	"context"
	"time"
)

// SetGrantsAckWait shortens the wait of a test for an abandoned batch.
func SetGrantsAckWait(b *Bus, d time.Duration) { b.grantsAckWait = d }

// Trim makes one round of the trimmer.
func Trim(ctx context.Context, b *Bus) error { return b.trim(ctx) }

// Messages is how many messages a stream holds.
func Messages(ctx context.Context, b *Bus, stream string) (uint64, error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.Msgs, nil
}

// Backoff and BoundsFor are rules worth a test of their own.
var Backoff = backoff

func BoundsFor(cfg Config, free int64) (grants, events, delayed int64) {
	b := boundsFor(cfg, free)
	return b.grants, b.events, b.delayed
}

// RetryLevel is how loudly a failed attempt is logged.
var RetryLevel = retryLevel
