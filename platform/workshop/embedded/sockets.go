package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

const (
	// socketPathBytes is the longest path that a unix socket may have everywhere: macOS allows 103 bytes and a NUL,
	// Linux 107.
	socketPathBytes = 103
	// postgresSocket is the name that Postgres gives its socket; the number is
	// only part of the name, no port is opened.
	postgresSocket = ".s.PGSQL.5432"
	redisSocket    = "redis.sock"
)

// plainPath matches folders that need no quoting in a URL or in a Postgres list.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9/._+-]+$`)

// socketDir is the short, private folder with the sockets.
type socketDir struct {
	path string
	// guard holds a shared lock on the folder: systemd-tmpfiles, which deletes
	// old files below /tmp, skips locked folders.
	guard *os.File
}

// socketPath derives the folder's path from the data folder and this process's
// account: the same for each start on the same data, so that a start finds what
// an earlier one left. It is in the temporary folder if socket paths there are
// short enough and the account can create it there, otherwise in /tmp.
func socketPath(dataPath string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", dataPath, os.Geteuid()))
	name := "stampede-" + hex.EncodeToString(sum[:6])
	tmp := resolveExisting(os.TempDir())
	path := filepath.Join(tmp, name)
	if len(path)+len("/"+postgresSocket) > socketPathBytes || !plainPath.MatchString(path) || unix.Access(tmp, unix.W_OK|unix.X_OK) != nil {
		path = filepath.Join(resolveExisting("/tmp"), name)
	}
	return path
}

// openSockets creates the folder, or checks that an existing one belongs to the
// account and is not accessible to others.
func openSockets(path string) (*socketDir, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fail(CodeNoSockets, nil, path, reason(err))
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("socket folder: %w", err)
	}
	if uid, ok := ownerOf(path); !ok || !info.IsDir() || info.Mode().Perm() != 0o700 || uid != os.Geteuid() {
		return nil, fail(CodeUnsafeSockets, nil, path)
	}
	guard, err := os.Open(path)
	if err == nil {
		err = unix.Flock(int(guard.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	}
	if err != nil {
		return nil, fmt.Errorf("socket folder: %w", err)
	}
	return &socketDir{path: path, guard: guard}, nil
}

// clear removes an earlier start's files from the folder, mainly sockets: a
// server refuses to replace them itself.
func (s *socketDir) clear() error {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return fmt.Errorf("socket folder: %w", err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(s.path, entry.Name())); err != nil {
			return fmt.Errorf("socket folder: %w", err)
		}
	}
	return nil
}

// ask sends a question to a server's socket and reads the beginning of its answer.
func ask(ctx context.Context, socket, question string, read func(answer io.Reader) error) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is lost with it
	deadline, _ := ctx.Deadline()       // the zero time is none
	if err = conn.SetDeadline(deadline); err == nil {
		_, err = io.WriteString(conn, question)
	}
	if err == nil {
		err = read(conn)
	}
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	return nil
}
