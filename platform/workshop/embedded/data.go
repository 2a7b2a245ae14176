package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

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

// dataDir is an opened and locked data folder. All access goes through root, which never leaves the folder.
type dataDir struct {
	path string
	root *os.Root
	lock *os.File
	acc  account
	// takenFrom is the pid of an earlier process that ended without releasing
	// the folder; "" if there is none, or once the servers it left running have
	// been stopped.
	takenFrom string
}

// openData creates or checks the folder, and locks it. It writes nothing to a
// folder that is not ours.
func openData(path string, acc account, fresh bool) (_ *dataDir, err error) {
	// The folder itself may still belong to root: it is given to the account
	// below. The folders above it are not ours.
	if folder := acc.blockedAt(filepath.Dir(path)); folder != "" {
		return nil, fail(CodeNotEnterable, nil, acc.name, folder, path, folder)
	}
	if err := makeFolder(path, acc); err != nil {
		return nil, dataError(path, err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, dataError(path, err)
	}
	d := &dataDir{path: path, root: root, acc: acc}
	defer func() {
		if err != nil {
			err = errors.Join(dataError(path, err), d.release())
		}
	}()
	if err := d.refuseForeign(); err != nil {
		return nil, err
	}
	if err := d.takeLock(); err != nil {
		return nil, err
	}
	if !fresh {
		if err := d.refuseNewer(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// makeFolder creates the folder with mode 0700, and missing parents.
func makeFolder(path string, acc account) error {
	err := os.Mkdir(path, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(path)
	if err := makeFolder(parent, acc); err != nil {
		return err
	}
	if acc.switched {
		// The account must be able to enter parents that root creates here,
		// whatever root's umask is.
		if err := os.Chmod(parent, 0o755); err != nil { //nolint:gosec // as said
			return err
		}
	}
	return os.Mkdir(path, 0o700)
}

// refuseForeign refuses a folder with content and without our marker. The lock
// may be the only file, from a start that failed early, and a file system's
// lost+found does not count.
func (d *dataDir) refuseForeign() error {
	names, err := d.names()
	if err != nil {
		return err
	}
	foreign := ""
	for _, name := range names {
		switch name {
		case markerName:
			return nil
		case lockName, "lost+found":
		default:
			if foreign == "" {
				foreign = name
			}
		}
	}
	if foreign != "" {
		return fail(CodeForeignFolder, nil, d.path, foreign)
	}
	return nil
}

// names lists the folder's entries, sorted.
func (d *dataDir) names() ([]string, error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// takeLock locks the folder for the life of this process. The kernel releases
// the lock however the process ends, so a pid without a lock belongs to a
// process that did not stop cleanly.
func (d *dataDir) takeLock() error {
	lock, err := d.openPlain(lockName, 0)
	if err != nil {
		return err
	}
	held := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	pid, err := pidIn(lock)
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
	raw, err := d.root.ReadFile(markerName)
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
		if err := d.root.RemoveAll(name); err != nil {
			return dataError(d.path, err)
		}
	}
	return dataError(d.path, d.root.RemoveAll(markerName))
}

// prepare writes the marker, creates the folders, and gives everything to the account.
func (d *dataDir) prepare() error {
	if info, err := d.root.Stat(markerName); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		if err := d.writeMarker(); err != nil {
			return dataError(d.path, err)
		}
	}
	for _, name := range []string{"log", "redis", "nats"} {
		if err := d.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return dataError(d.path, err)
		}
	}
	return dataError(d.path, d.giveToAccount())
}

// writeMarker syncs the marker to disk: after a power cut, data beside an empty
// or missing marker would be refused as foreign.
func (d *dataDir) writeMarker() error {
	raw, err := json.Marshal(marker{Format: dataFormat})
	if err != nil {
		return err
	}
	f, err := d.openPlain(markerName, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(append(raw, '\n'), 0)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	folder, err := d.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// giveToAccount makes the account the owner of everything in the folder, and of
// the folder last: until then, another account that owned it cannot enter. It
// refuses a file with a second name, which may be a hard link to a file of
// another account.
func (d *dataDir) giveToAccount() error {
	if !d.acc.switched {
		return nil
	}
	err := fs.WalkDir(d.root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		if entry.Name() == "lost+found" {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if ok && int(stat.Uid) == d.acc.uid && int(stat.Gid) == d.acc.gid {
			return nil
		}
		if !ok || stat.Nlink > 1 && !entry.IsDir() {
			return fmt.Errorf("%s has a second name: delete or copy it", path)
		}
		return d.root.Lchown(path, d.acc.uid, d.acc.gid)
	})
	if err != nil {
		return err
	}
	return d.root.Lchown(".", d.acc.uid, d.acc.gid)
}

// openPlain opens a file in the folder for reading and writing, with more flags
// if given, and creates it with mode 0600. It follows no symbolic link in the last element and refuses a
// file with a second name: the account may have planted either to make root
// write elsewhere.
func (d *dataDir) openPlain(name string, flags int) (*os.File, error) {
	folder, err := d.root.Open(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }() // a folder handle has nothing to flush
	fd, err := unix.Openat(int(folder.Fd()), filepath.Base(name), flags|unix.O_CREAT|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink != 1 {
		_ = f.Close() // nothing was written
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.Join(err, errors.New("not a plain file"))}
	}
	return f, nil
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
	var err error
	if d.lock != nil {
		err = d.writeLock(d.takenFrom)
		_ = d.lock.Close() // closing releases the lock in any case
	}
	_ = d.root.Close() // a folder handle has nothing to flush
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
