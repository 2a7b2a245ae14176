package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"stampede/platform/base/app"
)

// pace says how soon a dead or hanging server is running again.
type pace struct {
	// checkEvery is the time between two health checks: a Postgres backend for each costs a few tenths of 1 % of a core.
	checkEvery time.Duration
	// checkTimeout bounds one check, which takes a millisecond on a healthy server.
	checkTimeout time.Duration
	// retryEvery is the pause after a failed check that returned at once.
	retryEvery time.Duration
	// hangsAfter is how long checks fail before a running server is killed, at least two of them: one alone may have
	// failed because this process or the machine was suspended. A synced write to a cheap disk, behind which Redis
	// answers nothing, takes a second or two; and a restart with the Loads that follow it needs most of the ten seconds
	// in which a sale should go on. It is less than two checks that time out and the pause between them, so that these
	// two suffice.
	hangsAfter time.Duration
	// pauses between two starts of one server: the first start is immediate, then firstPause, doubled up to
	// longestPause. A server that has run for calmAfter starts immediately again.
	firstPause, longestPause, calmAfter time.Duration
	// givesUpAfter is how long starts may fail before the stack ends with the last one's error: longer than a shortage
	// of memory or processes that passes, and shorter than an operator watches a shop that sells nothing.
	givesUpAfter time.Duration
}

var usualPace = pace{
	checkEvery: time.Second, checkTimeout: 1500 * time.Millisecond, retryEvery: 250 * time.Millisecond, hangsAfter: 3 * time.Second,
	firstPause: 500 * time.Millisecond, longestPause: 8 * time.Second, calmAfter: time.Minute,
	givesUpAfter: 30 * time.Second,
}

// Restart describes a server's restart.
type Restart struct {
	Server string // "Postgres" or "Redis"
	Cause  string // completes the sentence that begins with Server
	Log    string // the path of the earlier process's log; empty if it was deleted
	// Down is how long the server did not answer, from its exit or its first failed health check.
	Down time.Duration
}

// part is one of the stack's servers, with the actions that differ between them.
type part struct {
	server
	// start starts a process and returns when it is ready.
	start func(ctx context.Context) (*child, error)
	// check returns nil if the server answers a new connection, even by a refusal: one that replays its log, or has no
	// connection left, is working.
	check func(ctx context.Context) error
	// sockets are its files in the socket folder.
	sockets []string
}

// keep restarts a server that has exited or hangs, until ctx ends or a restart fails for too long, which Died then
// delivers. Without [Config].Restarted it delivers the first exit.
func (s *Stack) keep(ctx context.Context, p part, c *child) {
	if s.cfg.Restarted == nil {
		select {
		case <-ctx.Done():
		case <-c.done:
			if !s.ending(ctx) {
				s.cfg.Logger.ErrorContext(ctx, "embedded server exited unexpectedly", "server", c.file, "cause", c.ended().Error())
				s.died <- c.failed(CodeChildEnded, s.data)
			}
		}
		return
	}
	var pause time.Duration
	for {
		began := time.Now()
		cause, since := s.lost(ctx, p, c)
		if time.Since(began) >= s.cfg.pace.calmAfter {
			pause = 0
		}
		if s.ending(ctx) {
			return
		}
		log, err := s.data.keepLog(p.file)
		if err == nil {
			c, err = s.restart(ctx, p, &pause)
		}
		if s.ending(ctx) {
			return
		}
		if err != nil {
			s.died <- err
			return
		}
		s.cfg.Restarted(Restart{Server: p.name, Cause: cause, Log: log, Down: time.Since(since)})
	}
}

// ending reports whether the stack is being stopped or killed.
func (s *Stack) ending(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killed || ctx.Err() != nil
}

// lost waits until the child has exited, hangs, or ctx ends, and returns why and since when.
func (s *Stack) lost(ctx context.Context, p part, c *child) (cause string, since time.Time) {
	pace := s.cfg.pace
	pause, failing := app.UntilBeat(pace.checkEvery), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return "", time.Time{}
		case <-c.done:
			return fmt.Sprintf("exited (%v)", c.ended()), time.Now()
		case <-time.After(pause):
		}
		began := time.Now()
		if err := within(ctx, pace.checkTimeout, p.check); err == nil {
			pause, failing = app.UntilBeat(pace.checkEvery), time.Time{}
			continue
		}
		pause = pace.retryEvery
		if failing.IsZero() {
			failing = began
		} else if silent := time.Since(failing); silent >= pace.hangsAfter {
			return fmt.Sprintf("did not answer for %.1f s and was killed", silent.Seconds()), failing
		}
	}
}

// within calls fn with a deadline.
func within(ctx context.Context, limit time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return fn(ctx)
}

// restart starts a server until it is ready, and returns the last error when that has failed for givesUpAfter.
func (s *Stack) restart(ctx context.Context, p part, pause *time.Duration) (*child, error) {
	pace := s.cfg.pace
	giveUp := time.Now().Add(pace.givesUpAfter)
	for {
		if err := app.Sleep(ctx, *pause); err != nil {
			return nil, err
		}
		*pause = min(max(2**pause, pace.firstPause), pace.longestPause)
		c, err := s.startAgain(ctx, p)
		if err == nil {
			return c, nil
		}
		if s.ending(ctx) || time.Now().After(giveUp) {
			return nil, err
		}
		s.cfg.Logger.WarnContext(ctx, "embedded server does not start, trying again", "server", p.file, "pause", *pause, "error", err)
	}
}

// startAgain ends what is left of a server's last process and starts the next one.
func (s *Stack) startAgain(ctx context.Context, p part) (*child, error) {
	ctx, cancel := context.WithTimeout(ctx, startBudget)
	defer cancel()
	s.mu.Lock()
	earlier := slices.Clone(s.children)
	s.mu.Unlock()
	for _, c := range earlier {
		if c.file != p.file {
			continue
		}
		if !c.kill(ctx) {
			pid := c.cmd.Process.Pid
			return nil, fail(CodeOrphan, ctx.Err(), p.name, pid, s.data.path, pid)
		}
		s.mu.Lock()
		s.children = slices.DeleteFunc(s.children, func(other *child) bool { return other == c })
		s.mu.Unlock()
	}
	for _, name := range p.sockets {
		if err := os.RemoveAll(filepath.Join(s.sockets.path, name)); err != nil {
			return nil, fail(CodeNoSockets, err, s.sockets.path, reason(err))
		}
	}
	return p.start(ctx)
}

// kill ends a child that hangs and the processes that it forked, which would keep its shared memory in use. It reports
// false if the child is still running, stuck in the kernel.
func (c *child) kill(ctx context.Context) bool {
	select {
	case <-c.done:
		return true
	default:
	}
	// A stopped parent forks no further process, and collects none of those that end, so that their pids stay theirs.
	_ = c.cmd.Process.Signal(syscall.SIGSTOP) // an error means that it has exited, which done reports
	for _, pid := range forkedBy(c.cmd.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // as above
	}
	return c.signalAndWait(ctx, syscall.SIGKILL, sternPatience)
}

// keepLog renames a server's log, which its next start would truncate, and returns its new path; none if the log was
// deleted.
func (d *dataDir) keepLog(name string) (string, error) {
	kept := d.logOf(name) + ".old"
	err := os.Rename(d.logOf(name), kept)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return kept, dataError(d.path, err)
}
