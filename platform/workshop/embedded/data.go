package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stampede/platform/base/app"
	"stampede/platform/base/disk"
)

const (
	// markerName is the file whose presence marks a folder as ours; it contains
	// the format of the data.
	markerName = "stampede.json"
	// lockName is the file that the process using the data keeps locked.
	lockName = "lock"

	// dataFormat counts layout changes of the data folder that an older binary
	// would misread. The Postgres schema has its own versions.
	dataFormat = 1
)

// marker is the content of the marker file.
type marker struct {
	Format int `json:"format"`
}

// dataDir is a locked data folder.
type dataDir struct {
	path string
	lock *os.File
	// takenFrom is the pid of an earlier process that ended without releasing
	// the folder; "" if there is none, or once the servers it left running have
	// been stopped.
	takenFrom string
}

// openData creates or checks the folder, and locks it. It writes nothing to a
// folder that is not ours.
func openData(ctx context.Context, path string, fresh bool) (_ *dataDir, err error) {
	if folder := blockedAt(filepath.Dir(path)); folder != "" {
		return nil, fail(CodeNotEnterable, nil, ownAccount(), folder, path, folder)
	}
	d := &dataDir{path: path}
	defer func() {
		if err != nil {
			err = errors.Join(dataError(path, err), d.release())
		}
	}()
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	if err := refuseForeign(path, names); err != nil {
		return nil, err
	}
	if err := d.takeLock(ctx); err != nil {
		return nil, err
	}
	if !fresh {
		err = d.refuseNewer()
	}
	return d, err
}

// IsData reports whether a folder is the data folder of a stack.
func IsData(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, markerName))
	return err == nil
}

// at is the path of a name in the folder.
func (d *dataDir) at(name string) string { return filepath.Join(d.path, name) }

// refuseForeign refuses a folder with content and without our marker. The lock
// may be the only file, from a start that failed early, and a file system's
// lost+found does not count.
func refuseForeign(dir string, names []string) error {
	if slices.Contains(names, markerName) {
		return nil
	}
	for _, name := range names {
		if name != lockName && name != "lost+found" {
			return fail(CodeForeignFolder, nil, dir, name)
		}
	}
	return nil
}

// names lists the folder's entries, sorted.
func (d *dataDir) names() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// lockGivenBack bounds the wait for a lock whose holder has ended.
const lockGivenBack = 2 * time.Second

// takeLock locks the folder for the life of this process. The kernel releases
// the lock however the process ends, so a pid without a lock belongs to a
// process that did not stop cleanly.
func (d *dataDir) takeLock(ctx context.Context) error {
	lock, err := os.OpenFile(d.at(lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	held := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	pid, err := pidIn(lock)
	// A lock without a pid has been given back: a process that its holder was starting at
	// that moment has its descriptor until it has become another program.
	for deadline := time.Now().Add(lockGivenBack); errors.Is(held, unix.EWOULDBLOCK) && pid == "" && time.Now().Before(deadline); {
		if err := app.Sleep(ctx, lockGivenBack/100); err != nil {
			_ = lock.Close() // nothing was written
			return err
		}
		if held = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); held != nil {
			_, _ = lock.Seek(0, io.SeekStart) // the next read says if it failed
			pid, err = pidIn(lock)
		}
	}
	if held != nil {
		_ = lock.Close() // nothing was written
		if errors.Is(held, unix.EWOULDBLOCK) {
			return fail(CodeLockHeld, nil, pid, d.path)
		}
		return fmt.Errorf("lock: %w", held)
	}
	d.lock, d.takenFrom = lock, pid
	if err != nil {
		return err
	}
	return d.writeLock(strconv.Itoa(os.Getpid()))
}

// pidIn reads the pid in a lock file.
func pidIn(lock io.Reader) (string, error) {
	content, err := io.ReadAll(io.LimitReader(lock, 32)) // a pid and a newline, with room to spare
	return strings.TrimSpace(string(content)), err
}

// InUse returns a [StartError] if another process is using the data folder; nil too if
// that cannot be seen. It changes nothing.
func InUse(path string) error {
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil //nolint:nilerr // as said
	}
	defer func() { _ = lock.Close() }() // nothing was written
	if !errors.Is(unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return nil
	}
	pid, _ := pidIn(lock)
	return fail(CodeLockHeld, nil, pid, path)
}

// refuseNewer refuses data of a later format: an older binary must not guess at it.
func (d *dataDir) refuseNewer() error {
	raw, err := os.ReadFile(d.at(markerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var m marker
	if len(raw) == 0 {
		return nil // a first start was killed at this point; prepare writes it
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("%s: %w", markerName, err)
	}
	if m.Format > dataFormat {
		return fail(CodeNewerData, nil, d.path, m.Format, dataFormat)
	}
	return nil
}

// wipe deletes everything but the lock. The marker goes last, so that an
// interrupted wipe can be repeated.
func (d *dataDir) wipe() error {
	names, err := d.names()
	if err != nil {
		return dataError(d.path, err)
	}
	for _, name := range names {
		if name == lockName || name == markerName || name == "lost+found" {
			continue
		}
		if err := os.RemoveAll(d.at(name)); err != nil {
			return dataError(d.path, err)
		}
	}
	return dataError(d.path, os.RemoveAll(d.at(markerName)))
}

// prepare writes the marker and creates the folders.
func (d *dataDir) prepare() error {
	if info, err := os.Stat(d.at(markerName)); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		if err := d.writeMarker(); err != nil {
			return dataError(d.path, err)
		}
	}
	for _, name := range []string{"log", "redis", "nats"} {
		if err := os.MkdirAll(d.at(name), 0o700); err != nil {
			return dataError(d.path, err)
		}
	}
	return nil
}

// writeMarker syncs the marker to disk: after a power cut, data beside an empty
// or missing marker would be refused as foreign.
func (d *dataDir) writeMarker() error {
	raw, err := json.Marshal(marker{Format: dataFormat})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(d.at(markerName), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	folder, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// enoughSpace refuses a disk that is nearly full, before anything is started on it.
func (d *dataDir) enoughSpace(minFree int64) error {
	free, err := disk.Free(d.path)
	if err != nil {
		return dataError(d.path, err)
	}
	if free < minFree {
		return fail(CodeDiskLow, nil, d.path, free>>20, minFree>>20)
	}
	return nil
}

// release unlocks the folder. It leaves the lock file empty, which means that
// nothing was left running, unless an earlier process left servers that this
// one has not stopped.
func (d *dataDir) release() error {
	if d.lock == nil {
		return nil
	}
	err := d.writeLock(d.takenFrom)
	_ = d.lock.Close() // closing releases the lock in any case
	return err
}

// writeLock replaces the content of the lock file.
func (d *dataDir) writeLock(content string) error {
	if err := d.lock.Truncate(0); err != nil {
		return err
	}
	_, err := d.lock.WriteAt([]byte(content), 0)
	return err
}

// ConfirmFresh asks for confirmation on out, and reads it from in, before the
// data in dir is deleted. No answer means no; the error then says how to answer
// without a terminal. It does not ask if there is no data.
func ConfirmFresh(dir string, in io.Reader, out io.Writer) error {
	if _, err := os.Stat(filepath.Join(dir, markerName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return dataError(dir, err)
	}
	_, _ = fmt.Fprintf(out, "Delete every sale, order and payment in %s and start over? [y/N] ", dir)
	answer, err := bufio.NewReader(io.LimitReader(in, 16)).ReadString('\n')
	switch a := strings.ToLower(strings.TrimSpace(answer)); {
	case a == "y" || a == "yes":
		return nil
	case err != nil: // the input ended without a newline: there is no terminal
		_, _ = fmt.Fprintln(out)
		return errors.New("nothing was deleted, because there was no answer; --yes answers yes, and without --fresh the start continues with the data")
	}
	return errors.New("nothing was deleted; start without --fresh to continue with the data")
}
