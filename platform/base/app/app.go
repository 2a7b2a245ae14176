// Package app manages the life of the process: it restarts failed workers,
// stops everything in a fixed order under a hard timer, and reports the
// readiness of each component.
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

// App owns what was started. It stops components in the reverse order of
// OnStop, so that a component stops before those it depends on.
type App struct {
	log *slog.Logger

	mu     sync.Mutex
	stops  []component
	checks []component
	once   sync.Once
	err    error

	draining atomic.Bool
}

// component is one that was started, with the function that stops or checks it.
type component struct {
	name string
	fn   func(ctx context.Context) error
}

// New returns an empty App.
func New(log *slog.Logger) *App { return &App{log: log} }

// OnStop registers the stop function of a component that has just been started.
func (a *App) OnStop(name string, fn func(ctx context.Context) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stops = append(a.stops, component{name, fn})
}

// OnReady registers a component's check for Readiness. The context ends with the
// probe, and the check must return then.
func (a *App) OnReady(name string, fn func(ctx context.Context) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks = append(a.checks, component{name, fn})
}

// Readiness reports whether a load balancer should send clients here, and each
// component's error, nil if it is well. Only a draining process is not ready: the
// components are shared with the other instances, and a fault of one would take
// all instances out at once, while each can still answer with 503 and Retry-After
// and serve what needs no such component. All are checked concurrently, so that a
// hanging one does not make the others look faulty.
func (a *App) Readiness(ctx context.Context) (ready bool, components map[string]error) {
	a.mu.Lock()
	checks := slices.Clone(a.checks)
	a.mu.Unlock()
	answers := make([]chan error, len(checks))
	for i, c := range checks {
		answers[i] = make(chan error, 1) // buffered, so that a late check never blocks
		go func() { answers[i] <- c.fn(ctx) }()
	}
	states := make(map[string]error, len(checks)+1)
	for i, c := range checks {
		select {
		case states[c.name] = <-answers[i]:
		case <-ctx.Done():
			states[c.name] = errNoAnswer
			select {
			case err := <-answers[i]: // the answer arrived together with the end of ctx
				states[c.name] = err
			default:
			}
		}
	}
	states["process"] = nil
	if a.draining.Load() {
		states["process"] = errDraining
	}
	return states["process"] == nil, states
}

// Readiness errors that do not come from a component's own check.
var (
	errNoAnswer = errors.New("does not answer")
	errDraining = errors.New("is stopping")
)

// Drain turns readiness off. Stop does so too; a caller that wants load
// balancers to notice before the stop calls Drain earlier.
func (a *App) Drain() { a.draining.Store(true) }

// Stop stops everything once, in reverse order, and returns the joined errors.
// ctx is the hard timer: a component that has not stopped when it ends is named
// in the error and abandoned.
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

// The back-off of a failed worker: short enough to recover from a blip within a
// second, long enough that a lasting fault does not fill the log.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// healthyRun is how long a worker must run before its back-off is reset.
	healthyRun = 30 * time.Second
)

// Go keeps workers running until Stop reaches them in its order. It registers
// their stop under name.
//
//nolint:contextcheck // workers outlive the caller's context; their stop ends them
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

// Await runs wait, which cannot be interrupted, and returns when it does, or
// returns ctx's error if ctx ends first. In that case wait keeps running.
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

// supervise restarts a worker whenever it returns before ctx ends, after a
// back-off that grows while it keeps failing.
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
		a.log.ErrorContext(ctx, "worker failed, restarting", "worker", w.Name, "error", err, "backoff", backoff)
		if Sleep(ctx, backoff) != nil {
			return
		}
		backoff = min(2*backoff, lastBackoff)
	}
}

// Guard calls f and turns a panic into an error: one bad message must not end the sale
// for all shoppers.
func Guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

func runOnce(ctx context.Context, w Worker) error {
	err := Guard(func() error { return w.Run(ctx) })
	if err == nil && ctx.Err() == nil {
		err = errors.New("returned before the stop")
	}
	return err
}

// Settings are how long a stop may take.
type Settings struct {
	StopTimeout  time.Duration `default:"10s" env:"STAMPEDE_STOP_TIMEOUT" help:"Hard limit for an orderly stop." min:"1s" max:"10m" rare:""`
	DrainDelay   time.Duration `default:"500ms" env:"STAMPEDE_DRAIN_DELAY" help:"How long a stopping server that is no longer ready still accepts requests: a little more than the interval of the load balancer's readiness probe." min:"0s" max:"1m" rare:""`
	DrainTimeout time.Duration `default:"4s" env:"STAMPEDE_DRAIN_TIMEOUT" help:"How long requests in flight may take during a stop, shorter than --stop-timeout." rare:""`
}

// Check compares the two only when StopTimeout is within its bounds, so that
// one mistake is reported once.
func (s Settings) Check() error {
	if s.StopTimeout >= time.Second && (s.DrainTimeout <= 0 || s.DrainTimeout >= s.StopTimeout) {
		return fmt.Errorf("--drain-timeout must be a duration shorter than --stop-timeout (%s), which has more to do than drain requests, not %s",
			s.StopTimeout, s.DrainTimeout)
	}
	if s.StopTimeout >= time.Second && s.DrainDelay >= s.StopTimeout-s.DrainTimeout {
		return fmt.Errorf("--drain-delay and --drain-timeout must together be shorter than --stop-timeout (%s), not %s and %s", s.StopTimeout, s.DrainDelay, s.DrainTimeout)
	}
	return nil
}

// Notice is a stop function that waits for DrainDelay or the end of ctx, so that
// load balancers notice that the process is not ready before a listener closes.
func (s Settings) Notice(ctx context.Context) error {
	_ = Sleep(ctx, s.DrainDelay) // a stop that is out of time goes on
	return nil
}
