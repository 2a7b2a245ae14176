package app

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// Loop runs Do immediately and then every Every, until its context ends.
type Loop struct {
	Every time.Duration
	// Retry is the pause after a failure; 0 means Every.
	Retry time.Duration
	// Kick triggers an earlier run; nil never does.
	Kick <-chan struct{}
	// Due, unless nil, triggers the runs instead of Every, which is then only the pause
	// after a failure: for what learns elsewhere that it has something to do.
	Due <-chan struct{}
	Do  func(ctx context.Context) error
	// Log receives the message Failed with the error, once per outage.
	Log    *slog.Logger
	Failed string
}

// Run returns nil when ctx ends.
func (l Loop) Run(ctx context.Context) error {
	tick := time.NewTicker(l.Every)
	defer tick.Stop()
	for failing := false; ; {
		err := l.Do(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			l.Log.WarnContext(ctx, l.Failed, "error", err) //nolint:sloglint // each user's message is a constant
		}
		if l.Retry > 0 && (err != nil) != failing {
			if err != nil {
				tick.Reset(l.Retry)
			} else {
				tick.Reset(l.Every)
			}
		}
		failing = err != nil
		next := tick.C
		if l.Due != nil && !failing {
			tick.Stop()
			next = nil
		} else if l.Due != nil {
			tick.Reset(cmp.Or(l.Retry, l.Every))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.Kick:
		case <-l.Due:
		case <-next:
		}
	}
}

// Worker is a loop that a module needs running for as long as the process serves.
type Worker struct {
	Name string
	// Run blocks until ctx ends and returns nil then. An error before that is a
	// failure: it is logged and Run is called again after a back-off, so Run
	// must be restartable.
	Run func(ctx context.Context) error
}

// Sleep waits, and returns ctx's error when ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
