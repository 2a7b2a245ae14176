package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"stampede/platform/workshop/embedded"
)

// The stores run under a dedicated child, whose input ends when no process
// needs them any more: this process and every other child hold the other end of
// the pipe. However they exit, even by kill -9, the kernel closes their end, so
// that the stores are stopped and the folder is deleted after the last of them
// and never before.

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

// redisMemoryBytes is for a million shoppers' marks, which need more than a demo's.
const redisMemoryBytes = 2 << 30

// serveStores is the child. It runs in the folder for the data, which is deleted at the
// end.
func serveStores(ctx context.Context, cluster bool, in io.Reader, out io.Writer) error {
	folder, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("bench: find the folder to use: %w", err)
	}
	ctx, unneeded := context.WithCancel(ctx)
	defer unneeded()
	go func() { _, _ = io.Copy(io.Discard, in); unneeded() }()
	defer removeAfter(folder)()

	data := filepath.Join(folder, "stores")
	cfg := embedded.Config{DataDir: data, RedisMaxMemoryBytes: redisMemoryBytes}
	if cluster { // as a single server's stores have by default, for each
		cfg.PostgresSettings = map[string]string{"max_connections": strconv.Itoa(100 * MostInstances)} //nolint:mnd // see above
	}
	stack, err := embedded.Start(ctx, cfg)
	if err != nil {
		refused := storesReady{Refused: err.Error(), Exit: 1}
		if coded, ok := errors.AsType[*embedded.StartError](err); ok {
			refused.Exit = coded.Exit
		}
		return json.NewEncoder(out).Encode(refused)
	}
	ready := storesReady{DatabaseURL: stack.DatabaseURL, RedisURL: stack.RedisURL, Folder: folder}
	if cluster {
		url, stop, err := startRedisCluster(ctx, data) // where the account of Postgres may write
		if ready.RedisURL = url; err != nil {
			ready.Refused, ready.Exit = err.Error(), 1
		} else {
			defer stop()
		}
	}
	if err := json.NewEncoder(out).Encode(ready); err == nil {
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
// answer. They stop when the rig is closed and all other children have ended.
func (r *Rig) startStores(ctx context.Context) error {
	folder, err := r.folder()
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("bench: open a pipe to the stores: %w", err)
	}
	part := storesPartName
	if r.instances > 0 {
		part = clusterPartName
	}
	cmd := exec.Command(r.exe, PartCommand, part) //nolint:gosec,noctx // this program; ended by its input
	// In a separate process group, so that a Ctrl-C in the terminal does not
	// stop the stores while other processes use them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin, cmd.Dir = read, folder
	c, err := start(cmd, write)
	_ = read.Close() // the child has its own
	if err != nil {
		return errors.Join(err, write.Close())
	}
	r.needsStores = write
	r.names[c.PID()] = "" // its children are named instead: postgres, redis-server
	r.onClose(c.await)
	// An interrupted start ends when its input does.
	release := context.AfterFunc(ctx, func() { _ = write.Close() })
	defer release()

	switch err := c.Hear(&r.stores); {
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), err)
	case err == nil && r.stores.Refused != "":
		return refusedError{r.stores}
	default:
		return err
	}
}
