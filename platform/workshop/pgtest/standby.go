package pgtest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/store/pg"
	"stampede/platform/workshop/embedded"
	"stampede/platform/workshop/require"
)

// Standby is a hot standby with streaming replication that belongs to one test.
type Standby struct {
	URL string

	program string
	Data    string              // the folder
	account *syscall.Credential // of the process; nil is the test's own
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process has exited
}

// Replicated starts a primary with our tables and a standby of it, both of which end with the test.
func Replicated(t testing.TB) (primaryURL string, s *Standby) {
	t.Helper()
	own, err := start(forStandbys)
	require.NoError(t, err)
	t.Cleanup(func() { _ = own.alive.Close() })
	_, _, err = pg.Migrate(t.Context(), own.DatabaseURL)
	require.NoError(t, err)
	programs, err := embedded.Find()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "stampede-standby-") //nolint:usetesting // a socket's path is short, and another account enters it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s = &Standby{program: programs.Postgres, Data: filepath.Join(dir, "data")}
	s.copyOf(t, own.DatabaseURL, dir)
	s.Start(t)
	t.Cleanup(func() { s.Stop(t) })
	return own.DatabaseURL, s
}

// copyOf copies a running primary into the standby's folder, as pg_basebackup does, which not every installation has.
func (s *Standby) copyOf(t testing.TB, primaryURL, dir string) {
	t.Helper()
	conn := Connect(t, primaryURL)
	Exec(t, conn, "SELECT pg_backup_start('standby', true)")
	from := Read[string](t, conn, "SHOW data_directory")
	require.NoError(t, os.CopyFS(s.Data, os.DirFS(from)))
	label := Read[string](t, conn, "SELECT labelfile FROM pg_backup_stop(false)")
	cfg := conn.Config()
	for name, text := range map[string]string{
		"backup_label": label, "standby.signal": "",
		"postgresql.auto.conf": fmt.Sprintf("primary_conninfo = 'host=%s port=%d user=%s'\n", cfg.Host, cfg.Port, cfg.User),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(s.Data, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Remove(filepath.Join(s.Data, "postmaster.pid")))
	require.NoError(t, os.Chmod(s.Data, 0o700)) //nolint:gosec // Postgres demands it of a folder
	if os.Geteuid() == 0 {
		info, err := os.Stat(from)
		require.NoError(t, err)
		owner := info.Sys().(*syscall.Stat_t) //nolint:errcheck // of every file
		s.account = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, int(owner.Uid), int(owner.Gid)) //nolint:gosec // in a folder of our own
		}))
	}
	cfg.Host = dir
	s.URL = fmt.Sprintf("postgres://%s@/%s?host=%s&port=%d", cfg.User, cfg.Database, dir, cfg.Port)
}

// Start starts the standby and waits until it answers.
func (s *Standby) Start(t testing.TB) {
	t.Helper()
	log, err := os.Create(filepath.Join(filepath.Dir(s.Data), "log"))
	require.NoError(t, err)
	defer func() { _ = log.Close() }() // the child has its own handle
	args := []string{"-D", s.Data}
	for name, value := range map[string]string{
		"listen_addresses": "", "unix_socket_directories": filepath.Dir(s.Data), "shared_buffers": "16MB", "fsync": "off",
		"timezone": "GMT", "log_timezone": "GMT", "lc_messages": "C",
		// At most what the primary has; and a query that keeps the replay waiting is canceled at once.
		"max_connections": "100", "wal_retrieve_retry_interval": "100ms", "max_standby_streaming_delay": "0",
	} {
		args = append(args, "-c", name+"="+value)
	}
	s.cmd = exec.Command(s.program, args...) //nolint:gosec,noctx // a cleanup ends it
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.Data, log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	require.NoError(t, s.cmd.Start())
	ended := make(chan struct{})
	s.ended = ended
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // ended by a signal, on purpose
		close(ended)
	}(s.cmd)
	Eventually(t, startTimeout, func() bool {
		select {
		case <-ended:
			said, _ := os.ReadFile(log.Name()) // as much as there is
			t.Fatalf("the standby exited: %s", said)
		default:
		}
		conn, err := pgx.Connect(t.Context(), s.URL)
		if err == nil {
			_ = conn.Close(t.Context()) // nothing is lost with it
		}
		return err == nil
	}, "the standby answers")
}

// Stop shuts the standby down and ends its connections. Further calls have no effect.
func (s *Standby) Stop(t testing.TB) {
	t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGINT) // it may have exited already
	select {
	case <-s.ended:
	case <-time.After(stopTimeout):
		_ = s.cmd.Process.Signal(syscall.SIGQUIT)
		<-s.ended
	}
}

// Freeze stops all processes of the standby, as a machine without memory does, until thaw: its connections stay open.
func (s *Standby) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	conn := Connect(t, s.URL)
	rows, err := conn.Query(t.Context(), "SELECT pid::bigint FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
	require.NoError(t, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	_ = conn.Close(context.WithoutCancel(t.Context())) // nothing is lost with it
	pids = append([]int64{int64(s.cmd.Process.Pid)}, pids...)
	all := func(sig syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(int(pid), sig) // it may have exited
		}
	}
	all(syscall.SIGSTOP)
	thaw = func() { all(syscall.SIGCONT) }
	t.Cleanup(thaw)
	return thaw
}
