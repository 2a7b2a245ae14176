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
)

// lastResort is what a process does when it may not take its time any more: a
// second Ctrl-C must not leave the private Postgres and Redis of `run` behind.
type lastResort struct {
	mu   sync.Mutex
	kill func() // nil while there is nothing to end
}

// arm gives the resort what ends the children; it may be called at any moment.
func (l *lastResort) arm(kill func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill = kill
}

// take ends the children and says so.
func (l *lastResort) take(out io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kill == nil {
		_, _ = fmt.Fprintln(out, "stampede: ended at once by a second signal")
		return
	}
	l.kill()
	_, _ = fmt.Fprintln(out, "stampede: ended at once by a second signal, and Postgres and Redis with it; the next start repairs what was under way")
}

// interruptible turns the first SIGINT or SIGTERM into the end of a context, which
// every command heeds in order, and the second into the end of the process. A third
// kills even that. stop gives the signals back.
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
		select {
		case <-signals:
			signal.Stop(signals)
			last.take(out)
			os.Exit(exitInterrupted) //nolint:forbidigo // whoever waits for an error is what takes too long
		case <-done:
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel() }
}

// interruptedError is an error that the interrupt of a command explains, in words
// that say more than that.
type interruptedError struct{ error }

// ExitCode is exitInterrupted.
func (interruptedError) ExitCode() int { return exitInterrupted }

// interrupted reports whether err says only that the work was cut short. Whatever
// was under way complains about that in words of its own, which would send the
// reader after a fault that is none. What failed while it was put away counts.
func interrupted(err error) bool {
	if parts, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the parts, not one of them
		return !slices.ContainsFunc(parts.Unwrap(), func(e error) bool { return !interrupted(e) })
	}
	return errors.Is(err, context.Canceled)
}
