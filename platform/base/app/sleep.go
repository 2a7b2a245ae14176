package app

import (
	"context"
	"time"
)

// Sleep waits, and returns ctx's error when ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
