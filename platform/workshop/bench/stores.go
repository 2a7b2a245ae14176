package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"stampede/platform/workshop/embedded"
)

// The stores run under a dedicated child, whose input ends when no process
// needs them any more: this process and every other child hold the other end of
// the pipe. However they exit, even by kill -9, the kernel closes their end, so
// that the stores are stopped and the folder is deleted after the last of them
// and never before.

// storesOrder is the only line that this child reads.
type storesOrder struct {
	Folder           string `json:"folder"` // deleted at the end; it contains the data
	RedisMemoryBytes int64  `json:"redis_memory_bytes"`
	Throwaway        bool   `json:"throwaway"` // never waits for the disk
}

// storesReady is the only line that it writes.
type storesReady struct {
	DatabaseURL string `json:"database_url"`
	RedisURL    string `json:"redis_url"`
	Folder      string `json:"folder"`
	Refused     string `json:"refused,omitempty"` // why the stores did not start
	Exit        int    `json:"exit,omitempty"`    // the matching exit code
}

// refusedError says why the stores did not start, with the exit code that
// `stampede run` uses for it.
type refusedError struct{ ready storesReady }

func (e refusedError) Error() string { return e.ready.Refused }

// ExitCode is the condition's, see platform/workshop/embedded.
func (e refusedError) ExitCode() int { return e.ready.Exit }

// serveStores is the child.
func serveStores(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	var order storesOrder
	if err := errors.Join(err, json.Unmarshal(line, &order)); err != nil {
		return fmt.Errorf("bench: read the folder to use: %w", err)
	}
	ctx, unneeded := context.WithCancel(ctx)
	defer unneeded()
	go func() { _, _ = io.Copy(io.Discard, lines); unneeded() }()
	defer removeAfter(order.Folder)()

	stack, err := embedded.Start(ctx, embedded.Config{
		DataDir: filepath.Join(order.Folder, "stores"), RedisMaxMemoryBytes: order.RedisMemoryBytes, Throwaway: order.Throwaway,
	})
	if err != nil {
		refused := storesReady{Refused: err.Error(), Exit: 1}
		var coded interface{ ExitCode() int }
		if errors.As(err, &coded) {
			refused.Exit = coded.ExitCode()
		}
		return json.NewEncoder(out).Encode(refused)
	}
	if err := json.NewEncoder(out).Encode(storesReady{DatabaseURL: stack.DatabaseURL, RedisURL: stack.RedisURL, Folder: order.Folder}); err == nil {
		<-ctx.Done()
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	return stack.Stop(stop)
}

// removeAfter returns a function that deletes the folder, as does this process's
// end. It deletes as the account that this process has now, which Start changes
// if that is root.
func removeAfter(folder string) func() {
	cmd := exec.Command("sh", "-c", `cat; rm -rf -- "$0"`, folder) //nolint:gosec,noctx // the rig's folder; it ends with this process
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return func() { _ = os.RemoveAll(folder) } // as much as can be deleted
	}
	return func() { _ = in.Close() }
}

// startStores starts the child, in a folder of its own, and returns when the stores
// answer. The report lists them under name, or each by its own. They stop when the
// rig is closed and all other children have ended.
func (r *Rig) startStores(ctx context.Context, name string, order storesOrder) (_ storesReady, err error) {
	if order.Folder, err = r.folder(); err != nil {
		return storesReady{}, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return storesReady{}, fmt.Errorf("bench: open a pipe to the stores: %w", err)
	}
	cmd := exec.Command(r.exe, PartCommand, storesPartName) //nolint:gosec,noctx // this program; ended by its input
	// In a separate process group, so that a Ctrl-C in the terminal does not
	// stop the stores while other processes use them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin = read
	c, err := start(cmd, write)
	_ = read.Close() // the child has its own
	if err != nil {
		return storesReady{}, errors.Join(err, write.Close())
	}
	r.needsStores = append(r.needsStores, write)
	r.names[c.PID()] = name // if empty, its children are named instead: postgres, redis-server
	r.onClose(c.await)
	// An interrupted start ends when its input does.
	release := context.AfterFunc(ctx, func() { _ = write.Close() })
	defer release()

	var ready storesReady
	if err := errors.Join(c.Tell(order), c.Hear(&ready)); err != nil {
		return storesReady{}, errors.Join(context.Cause(ctx), err)
	}
	if ready.Refused != "" {
		if ctx.Err() != nil {
			return storesReady{}, context.Cause(ctx)
		}
		return storesReady{}, refusedError{ready}
	}
	return ready, nil
}
