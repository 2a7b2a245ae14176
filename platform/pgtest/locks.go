package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// folder is the shared folder of all test processes of one user.
type folder string

// sharedFolder creates the folder, or checks that an existing one is this user's alone to write to: binaries run and
// databases are trusted by what lies in it.
func sharedFolder() (folder, error) {
	dir := os.Getenv(folderEnv)
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "stampede-test-"+strconv.Itoa(os.Getuid()))
	}
	// Others may pass through: root's servers run as another account.
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // as said
		return "", fmt.Errorf("pgtest: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("pgtest: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("pgtest: %s is not a folder of this user's own: remove it, or set TMPDIR", dir)
	}
	return folder(dir), nil
}

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// errHeld says that somebody else holds a lock.
var errHeld = errors.New("held by another process")

// tryLock takes a lock (unix.LOCK_SH or LOCK_EX) or gives errHeld. Closing the file gives it back.
func (f folder) tryLock(name string, how int) (*os.File, error) {
	file, err := os.OpenFile(f.path(name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("pgtest: lock %s: %w", name, err)
	}
	if err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB); err != nil {
		_ = file.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errHeld
		}
		return nil, fmt.Errorf("pgtest: lock %s: %w", name, err)
	}
	return file, nil
}

// lock waits for a lock until ctx ends. It polls, because a wait inside the kernel could not be given up.
func (f folder) lock(ctx context.Context, name string, how int) (*os.File, error) {
	const every = 20 * time.Millisecond // joining takes about a second when servers must start, a few ms otherwise
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		file, err := f.tryLock(name, how)
		if !errors.Is(err, errHeld) {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("pgtest: lock %s: %w", name, ctx.Err())
		case <-tick.C:
		}
	}
}

// servers are the URLs of running servers, or why there are none. The keeper writes them to a file and to its starter.
type servers struct {
	DatabaseURL string `json:"database_url"`
	RedisURL    string `json:"redis_url"`
	Problem     string `json:"problem,omitempty"`
}

const stateName = "servers.json"

// readState reads what a running keeper wrote; ok is false if it has not come so far.
func (f folder) readState() (s servers, ok bool) {
	raw, err := os.ReadFile(f.path(stateName))
	if err != nil {
		return servers{}, false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// writeState publishes the servers. The rename lets readers see all of it or nothing.
func (f folder) writeState(s servers) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	unfinished := f.path(stateName + ".new")
	if err := os.WriteFile(unfinished, raw, 0o600); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	if err := os.Rename(unfinished, f.path(stateName)); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	return nil
}
