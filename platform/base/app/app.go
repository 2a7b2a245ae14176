// Package app is the life of the process: workers that are kept running, a
// stop in a fixed order under a hard timer, and the readiness of each
// component.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// App owns what was started. Things are stopped in the reverse order of
// OnStop, so that whoever was started with another's help goes first.
type App struct {
	log *slog.Logger

	mu     sync.Mutex
	stops  []stop
	checks []check
	once   sync.Once
	err    error

	draining atomic.Bool
}

type stop struct {
	name string
	fn   func(ctx context.Context) error
}

type check struct {
	name string
	fn   func(ctx context.Context) error
}

// New returns an App with nothing in it.
func New(log *slog.Logger) *App { return &App{log: log} }

// OnStop registers how to stop a thing that has just been started.
func (a *App) OnStop(name string, fn func(ctx context.Context) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stops = append(a.stops, stop{name, fn})
}

// OnReady registers a component's readiness check. It gets a context that ends
// with the probe and must end with it.
func (a *App) OnReady(name string, fn func(ctx context.Context) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks = append(a.checks, check{name, fn})
}

// Readiness asks every component, all at once so that one that hangs is not
// taken for the others, and returns what is wrong with each, nil where nothing
// is. While the process drains it is not ready whatever the components say, so
// that a balancer sends nobody new.
func (a *App) Readiness(ctx context.Context) map[string]error {
	a.mu.Lock()
	checks := slices.Clone(a.checks)
	a.mu.Unlock()
	answers := make([]chan error, len(checks))
	for i, c := range checks {
		answers[i] = make(chan error, 1) // whoever answers late holds up nobody
		go func() { answers[i] <- c.fn(ctx) }()
	}
	states := make(map[string]error, len(checks)+1)
	for i, c := range checks {
		select {
		case states[c.name] = <-answers[i]:
		case <-ctx.Done():
			states[c.name] = errNoAnswer
			select {
			case err := <-answers[i]: // both were there
				states[c.name] = err
			default:
			}
		}
	}
	states["process"] = nil
	if a.draining.Load() {
		states["process"] = errDraining
	}
	return states
}

// What readiness says where a component does not speak for itself.
var (
	errNoAnswer = errors.New("gives no answer")
	errDraining = errors.New("is stopping")
)

// Drain turns readiness off. Stop does it too; a caller that wants balancers to
// notice first calls it earlier.
func (a *App) Drain() { a.draining.Store(true) }

// Stop stops everything once, in reverse order, and returns the joined errors.
// ctx is the hard timer: what has not stopped when it ends is named and left.
func (a *App) Stop(ctx context.Context) error {
	a.Drain()
	a.once.Do(func() {
		a.mu.Lock()
		stops := slices.Clone(a.stops)
		a.mu.Unlock()
		for _, s := range slices.Backward(stops) {
			began := time.Now()
			if err := s.fn(ctx); err != nil {
				a.err = errors.Join(a.err, fmt.Errorf("stop %s: %w", s.name, err))
			}
			a.log.DebugContext(ctx, "stopped", "component", s.name, "took", time.Since(began))
		}
	})
	return a.err
}

// The back-off of a worker that failed: short enough that a blip is over in a
// second, long enough that a lasting fault does not fill the log.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// healthyRun is how long a worker must have run for its next failure to
	// count as the first again.
	healthyRun = 30 * time.Second
)

// Go keeps workers running until Stop reaches this point of the order. It
// registers their stop under name.
//
//nolint:contextcheck // workers outlive whoever started them; their stop ends them
func (a *App) Go(name string, workers ...Worker) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, w := range workers {
		group.Go(func() { a.supervise(ctx, w) })
	}
	a.OnStop(name, func(stopCtx context.Context) error {
		cancel()
		if Await(stopCtx, group.Wait) != nil {
			return fmt.Errorf("workers of %s did not end in time", name)
		}
		return nil
	})
}

// Await runs wait, which cannot be interrupted, and returns when it has, or ctx's
// error when ctx ends before. wait goes on then.
func Await(ctx context.Context, wait func()) error {
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// supervise starts a worker again whenever it returns before ctx ends, after a
// pause that grows while it keeps failing.
func (a *App) supervise(ctx context.Context, w Worker) {
	backoff := firstBackoff
	for {
		began := time.Now()
		err := runOnce(ctx, w)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > healthyRun {
			backoff = firstBackoff
		}
		a.log.ErrorContext(ctx, "worker failed and is started again", "worker", w.Name, "error", err, "backoff", backoff)
		if Sleep(ctx, backoff) != nil {
			return
		}
		backoff = min(2*backoff, lastBackoff)
	}
}

// runOnce turns a panic into an error: one bad message must not end a sale for
// everybody.
func runOnce(ctx context.Context, w Worker) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	err = w.Run(ctx)
	if err == nil && ctx.Err() == nil {
		err = errors.New("ended by itself")
	}
	return err
}
