package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// lastResort is the immediate exit on a second Ctrl-C, which must not leave the
// private Postgres and Redis of `run` behind.
type lastResort struct {
	mu   sync.Mutex
	kill func() // nil while there is nothing to end
}

// arm sets the function that kills the children; it may be called at any moment.
func (l *lastResort) arm(kill func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill = kill
}

// take kills the children and prints a message.
func (l *lastResort) take(out io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kill == nil {
		_, _ = fmt.Fprintln(out, "stampede: killed by a second signal")
		return
	}
	l.kill()
	_, _ = fmt.Fprintln(out, "stampede: killed by a second signal, together with Postgres and Redis; the next start recovers")
}

// sameSignal is how soon a second signal is still the first: timeout(1) and some
// supervisors signal a process and then its group, to which it belongs.
const sameSignal = 500 * time.Millisecond

// interruptible turns the first SIGINT or SIGTERM into the end of a context, on
// which every command shuts down in order, and the second into the end of the
// process. A third kills the process even during that. stop restores the
// default signal handling.
func interruptible(ctx context.Context, last *lastResort, out io.Writer) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		first := time.Now()
		for {
			select {
			case <-signals:
				if time.Since(first) < sameSignal {
					continue
				}
				signal.Stop(signals)
				last.take(out)
				os.Exit(exitInterrupted) //nolint:forbidigo // returning an error would wait for the part that hangs
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel() }
}

// interruptedError is an error caused by the interrupt of a command whose
// message adds information.
type interruptedError struct{ error }

// ExitCode returns exitInterrupted.
func (interruptedError) ExitCode() int { return exitInterrupted }

// interrupted reports whether err is only a consequence of the interrupt.
// Interrupted work returns various errors, which would send the operator after
// a fault that does not exist. Errors of the shutdown itself count.
func interrupted(err error) bool {
	if parts, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the parts, not one of them
		return !slices.ContainsFunc(parts.Unwrap(), func(e error) bool { return !interrupted(e) })
	}
	return errors.Is(err, context.Canceled)
}
