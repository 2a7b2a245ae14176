package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Child is a process of this program that was started for the measurements.
type Child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *io.PipeReader
	lines *bufio.Scanner
	errs  tail
	done  chan struct{}
	err   error
}

// PartCommand is the hidden command that runs a part as a child.
const PartCommand = "bench-part"

// RunPart runs a part: it reads commands from in, one JSON value per line,
// answers on out in the same form, and returns when in ends. So it cannot
// outlive the run that started it.
func RunPart(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	switch name {
	case barePartName:
		return bare(ctx, in, out)
	case storesPartName:
		return serveStores(ctx, false, in, out)
	case clusterPartName:
		return serveStores(ctx, true, in, out)
	case natsPartName:
		return serveNATS(in)
	default:
		return fmt.Errorf("there is no part %q", name)
	}
}

// maxLineBytes bounds one line of a conversation with a child.
const maxLineBytes = 1 << 20

const (
	barePartName    = "bare"
	storesPartName  = "stores"
	clusterPartName = "cluster" // stores, with a Redis Cluster
	natsPartName    = "nats"
)

// spawn starts this program as a child, with pipes to its input and output, which the
// report lists under name. The rig ends it.
func (r *Rig) spawn(ctx context.Context, name string, args ...string) (*Child, error) {
	// The context is not passed to exec, which would kill the child immediately
	// instead of letting it shut down.
	cmd := exec.Command(r.exe, args...) //nolint:gosec,noctx // this program; ended by End
	// A Ctrl-C in the terminal must reach only this process, which then ends
	// its children.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = []*os.File{r.needsStores} // the child only inherits them
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("bench: start %s: %w", args[0], err)
	}
	c, err := start(cmd, in)
	if err != nil {
		return nil, err
	}
	r.names[c.PID()] = name
	r.onClose(c.End)
	// Stop waiting for a child's line when the run is interrupted.
	context.AfterFunc(ctx, func() { _ = c.in.Close(); _ = cmd.Process.Signal(syscall.SIGTERM) })
	return c, nil
}

// start starts a command as a child that reads from in.
func start(cmd *exec.Cmd, in io.WriteCloser) (*Child, error) {
	c := &Child{cmd: cmd, in: in, done: make(chan struct{})}
	cmd.Stderr = &c.errs
	// Not exec's pipe: Wait would close it while it still contains the last lines.
	var out *io.PipeWriter
	c.out, out = io.Pipe()
	cmd.Stdout = out
	c.lines = bufio.NewScanner(c.out)
	c.lines.Buffer(nil, maxLineBytes)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: start %s: %w", cmd.Args[1], err)
	}
	go func() {
		if err := cmd.Wait(); err != nil {
			c.err = errors.New(err.Error()) // without the child's exit code, which is not this process's
		}
		_ = out.Close()
		close(c.done)
	}()
	return c, nil
}

// PID is the process's id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Tell sends a value to the child.
func (c *Child) Tell(v any) error {
	if err := json.NewEncoder(c.in).Encode(v); err != nil {
		return c.failed(err)
	}
	return nil
}

// Hear waits for a value from the child; the child's exit is an error.
func (c *Child) Hear(v any) error {
	line, err := c.line()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return c.failed(fmt.Errorf("unexpected output %q: %w", line, err))
	}
	return nil
}

func (c *Child) line() ([]byte, error) {
	if !c.lines.Scan() {
		<-c.done
		return nil, c.failed(errors.Join(c.lines.Err(), c.err))
	}
	return c.lines.Bytes(), nil
}

func (c *Child) failed(err error) error {
	name := strings.Join(c.cmd.Args[1:min(3, len(c.cmd.Args))], " ")
	if err == nil {
		err = errors.New("it exited")
	}
	return fmt.Errorf("bench: the child %q: %w\n%s", name, err, c.errs.String())
}

// End shuts the child down, and kills it if ctx ends first. It returns no error
// if the child has already exited.
func (c *Child) End(ctx context.Context) error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has exited
	return c.await(ctx)
}

// await closes the child's input, which makes it exit, and waits; it kills the
// child if that takes too long or ctx ends first.
func (c *Child) await(ctx context.Context) error {
	_, _ = c.in.Close(), c.out.Close() // further output is discarded
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	case <-time.After(closePatience / 2):
	}
	_ = c.cmd.Process.Kill()
	<-c.done
	return fmt.Errorf("bench: process %d had to be killed", c.PID())
}

// tail keeps the end of a child's standard error.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// tailBytes is some dozen lines, enough to show why a child exited.
const tailBytes = 4 << 10

// Write keeps the end of everything that was written.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = t.buf[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
