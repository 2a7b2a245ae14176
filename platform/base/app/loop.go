package app

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// Loop runs Do immediately and then at each beat of Every (UntilBeat), until its context ends.
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
	for failing := false; ; {
		err := l.Do(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			l.Log.WarnContext(ctx, l.Failed, "error", err) //nolint:sloglint // each user's message is a constant
		}
		failing = err != nil
		var next <-chan time.Time
		switch {
		case failing:
			next = time.After(cmp.Or(l.Retry, l.Every))
		case l.Due == nil:
			next = time.After(UntilBeat(l.Every))
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

// beatPhase keeps beats out of the moment in which a sale opens.
const beatPhase = 100 * time.Millisecond

// UntilBeat is the pause of a loop until its next round. Loops of up to a second make theirs
// at the same moments of the clock, so that one waking of the process serves all of them: at
// rest the waking costs more than the rounds. Longer ones just pause.
func UntilBeat(every time.Duration) time.Duration {
	if every > time.Second {
		return every
	}
	return every - time.Duration(time.Now().UnixNano()-int64(beatPhase))%every
}

// Kick leaves a signal for the Kick of a Loop in a channel that buffers one: one that waits there
// already covers this one too. It never blocks.
func Kick(loop chan<- struct{}) {
	select {
	case loop <- struct{}{}:
	default:
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
