package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// fullBelow is the free space below which a disk counts as full: a server
	// fails to write its next page well before the last byte is used.
	fullBelow = 1 << 20
	// tailBytes and tailLines bound how much of a log an error contains: as
	// much as fits a screen.
	tailBytes = 4 << 10
	tailLines = 20
	// politePatience is how long a child may take to shut down cleanly,
	// sternPatience how long after each harder signal. Together they stay below
	// the 10 s that stopping the whole program may take, of which the servers
	// are the last part.
	politePatience = 4 * time.Second
	sternPatience  = 2 * time.Second
)

// child is a server started by this process. One goroutine waits for it and owns err until done is closed.
type child struct {
	server
	cmd *exec.Cmd
	log string // path of its log
	// done is closed when the process has exited; err is then its exit error.
	done chan struct{}
	err  error
	// patience is politePatience, but in tests that promise no time.
	patience time.Duration
}

// childEnv is the whole environment of a child: nothing of ours leaks in
// (PGDATA, PGOPTIONS, MALLOC_CONF), and messages are in English so that they
// can be matched.
func childEnv() []string {
	return []string{"PATH=" + cmp.Or(os.Getenv("PATH"), "/usr/bin:/bin"), "LC_ALL=C", "TZ=UTC"}
}

// logOf is the path of a child's log.
func (d *dataDir) logOf(name string) string { return filepath.Join(d.path, "log", name+".log") }

// command prepares a program to run in dir, with its output in the named log. It
// takes no context, which would kill a server instead of letting it shut down.
func (d *dataDir) command(program, dir, logName string, args ...string) (*exec.Cmd, *os.File, error) {
	log, err := os.OpenFile(d.logOf(logName), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, dataError(d.path, err)
	}
	cmd := exec.Command(program, args...) //nolint:gosec,noctx // found by Find; ended by Stop
	cmd.Dir = dir
	cmd.Env = childEnv()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, log, nil
}

// spawn starts a server.
func (d *dataDir) spawn(s server, program, dir string, args ...string) (*child, error) {
	cmd, log, err := d.command(program, dir, s.file, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	c := &child{server: s, cmd: cmd, log: d.logOf(s.file), done: make(chan struct{}), patience: politePatience}
	if err := cmd.Start(); err != nil {
		return nil, fail(CodeChildFailed, err, s.name, c.log)
	}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// failed returns the error for a child that exited while it was expected to run.
func (c *child) failed(code Code, d *dataDir) error {
	tail := d.tail(c.file)
	if strings.Contains(tail, "No space left on device") {
		return fail(CodeDiskFull, errors.New(tail), d.path)
	}
	if d.enoughSpace(fullBelow) != nil { // the disk may have been too full for its last log line
		return fail(CodeDiskFull, nil, d.path)
	}
	return fail(code, fmt.Errorf("%s: %w\n%s", c.file, c.ended(), tail), c.name, c.log)
}

// ended returns the exit error of a child that is done, never nil.
func (c *child) ended() error {
	if c.err != nil {
		return c.err
	}
	return errors.New("exit status 0")
}

// await polls ready until it succeeds, the child ends, or ctx ends.
func (c *child) await(ctx context.Context, d *dataDir, ready func(context.Context) error) error {
	const every = 10 * time.Millisecond // a server is up in some 50 ms, and a check costs well under one
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.done:
			return c.failed(CodeChildFailed, d)
		case <-ctx.Done():
			return fail(CodeChildFailed, fmt.Errorf("%w: %w\n%s", ctx.Err(), err, d.tail(c.file)), c.name, c.log)
		case <-tick.C:
		}
	}
}

// stop ends the child: politely, then firmly, then by SIGKILL. The end of ctx
// cuts the polite part short. It returns an error only if the process is still
// running after that, stuck in the kernel.
func (c *child) stop(ctx context.Context) error {
	if c.signalAndWait(ctx, c.polite, c.patience) {
		return nil
	}
	return c.endFirmly(context.WithoutCancel(ctx))
}

// endFirmly ends the child without letting it finish its work, and fails like stop.
func (c *child) endFirmly(ctx context.Context) error {
	for _, sig := range []syscall.Signal{c.firm, syscall.SIGKILL} {
		if sig != 0 && c.signalAndWait(ctx, sig, sternPatience) {
			return nil
		}
	}
	return fmt.Errorf("stop %s: process %d is still running", c.file, c.cmd.Process.Pid)
}

// signalAndWait reports whether the child has exited.
func (c *child) signalAndWait(ctx context.Context, sig syscall.Signal, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = c.cmd.Process.Signal(sig) // an error means that it has exited, which done reports
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// tail returns the end of a log in whole lines.
func (d *dataDir) tail(logName string) string {
	f, err := os.Open(d.logOf(logName))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // read only
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return ""
		}
	}
	raw, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
