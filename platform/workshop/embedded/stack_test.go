package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"stampede/platform/workshop/require"
)

// emptyDataDir is the path of a data folder that does not exist yet.
func emptyDataDir(t *testing.T) string {
	t.Helper()
	require.NoError(t, ordinary())
	return filepath.Join(resolveExisting(t.TempDir()), "data")
}

// start starts a stack that is stopped with the test.
func start(t *testing.T, cfg Config) *Stack {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	s.mu.Lock()
	for _, c := range s.children {
		c.patience = time.Minute // a slow machine may need more than an operator would wait
	}
	s.mu.Unlock()
	t.Cleanup(func() {
		require.NoError(t, s.Stop(context.Background()))
	})
	return s
}

// connect connects to the stack's Postgres by its URL.
func connect(t *testing.T, s *Stack) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// execute runs SQL without a result.
func execute(t *testing.T, s *Stack, sql string) {
	t.Helper()
	_, err := connect(t, s).Exec(t.Context(), sql)
	require.NoError(t, err)
}

// query runs SQL that returns one text.
func query(t *testing.T, s *Stack, sql string) string {
	t.Helper()
	var answer string
	require.NoError(t, connect(t, s).QueryRow(t.Context(), sql).Scan(&answer))
	return answer
}

// redisClient connects to the stack's Redis by its URL.
func redisClient(t *testing.T, s *Stack) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(s.RedisURL)
	require.NoError(t, err)
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	opts.ReadTimeout, opts.WriteTimeout = -1, -1 // a machine that stalls delays an answer and loses none
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestDataSurvivesAStop(t *testing.T) {
	t.Parallel()
	dir := emptyDataDir(t)
	var steps []string
	cfg := Config{
		DataDir: dir, Throwaway: true, RedisSettings: map[string]string{"appendonly": "yes"},
		Step: func(name string, _ time.Duration) { steps = append(steps, name) },
	}

	first := start(t, cfg)
	execute(t, first, "CREATE TABLE kept (n int)")
	require.NoError(t, redisClient(t, first).Set(t.Context(), "kept", "yes", 0).Err())
	require.NoError(t, first.Stop(t.Context()))
	require.NoError(t, first.Stop(t.Context()))
	_, err := os.Stat(first.sockets.path)
	require.ErrorIs(t, err, os.ErrNotExist)
	select {
	case err := <-first.Died():
		t.Errorf("a stop was reported as an unexpected exit: %v", err)
	default:
	}

	second := start(t, cfg)
	require.Equal(t, "the table", query(t, second, "SELECT to_regclass('kept')::text"), "kept")
	require.Equal(t, "the key", redisClient(t, second).Get(t.Context(), "kept").Val(), "yes")
	require.Equal(t, "notices after a clean stop", second.Notices, nil)
	require.NoError(t, second.Stop(t.Context()))

	cfg.Fresh = true
	third := start(t, cfg)
	require.Equal(t, "the table after a fresh start", query(t, third, "SELECT coalesce(to_regclass('kept')::text, 'gone')"), "gone")
	require.Equal(t, "keys after a fresh start", redisClient(t, third).Exists(t.Context(), "kept").Val(), 0)
	require.Contains(t, "the steps", strings.Join(steps, "\n"), "create the Postgres cluster", "start Redis "+third.Binaries.RedisVersion, "delete the old data")
}

func TestServersAreSafeAndPrivate(t *testing.T) {
	t.Parallel()
	s := start(t, Config{DataDir: emptyDataDir(t)})
	initSync := "fsync"
	if runtime.GOOS == "linux" {
		initSync = "syncfs"
	}
	for setting, want := range map[string]string{
		"listen_addresses": "", "data_checksums": "on", "server_encoding": "UTF8", "fsync": "on",
		"synchronous_commit": "on", "full_page_writes": "on", "max_connections": "100", "recovery_init_sync_method": initSync,
	} {
		require.Equal(t, "Postgres: "+setting, query(t, s, "SELECT current_setting('"+setting+"')"), want)
	}
	client := redisClient(t, s)
	for setting, want := range map[string]string{
		"port": "0", "appendonly": "yes", "appendfsync": "always", "save": "",
		"maxmemory": "536870912", "maxmemory-policy": "noeviction",
	} {
		require.Equal(t, "Redis: "+setting, client.ConfigGet(t.Context(), setting).Val()[setting], want)
	}
	for _, folder := range []string{s.DataDir, s.DataDir + "/postgres", s.DataDir + "/redis", s.sockets.path} {
		info, err := os.Stat(folder)
		require.NoError(t, err)
		require.Equal(t, "the mode of "+folder, info.Mode().Perm(), 0o700)
	}
	for _, c := range s.children {
		p, ok := inspect(c.cmd.Process.Pid)
		if !ok || !c.isOurs(p) {
			t.Errorf("%s would not be recognized: %+v", c.name, p)
		}
		group, err := syscall.Getpgid(c.cmd.Process.Pid)
		if err != nil || group != c.cmd.Process.Pid {
			t.Errorf("%s is in process group %d (%v): Ctrl-C would reach it", c.name, group, err)
		}
	}
	assertOnlyOurOwn(t, s)
}

func TestAwkwardPaths(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(filepath.Dir(emptyDataDir(t)), "with spaces, 'quotes' and 秒杀", strings.Repeat("long", 30))
	copySeed(t, dir)
	s := start(t, Config{DataDir: dir, Throwaway: true})
	require.Equal(t, "the folder", query(t, s, "SELECT current_setting('data_directory')"), dir+"/postgres")
	require.NoError(t, redisClient(t, s).Ping(t.Context()).Err())

	// The report of an unexpected exit names the path, too.
	require.NoError(t, childOf(t, s, "Redis").cmd.Process.Kill())
	select {
	case err := <-s.Died():
		assertCondition(t, err, CodeChildEnded, 24, "Redis exited unexpectedly; the cause is at the end of "+s.DataDir+"/log/redis.log.")
	case <-time.After(30 * time.Second):
		t.Fatal("the exit of Redis was not reported")
	}
}

func TestStopKillsAnUnresponsiveServer(t *testing.T) {
	t.Parallel()
	s := start(t, Config{DataDir: usedDataDir(t), Throwaway: true})
	for _, c := range s.children {
		require.NoError(t, c.cmd.Process.Signal(syscall.SIGSTOP))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no patience for the polite part
	began := time.Now()
	require.NoError(t, s.Stop(ctx))
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestKillEndsBusyServers checks a busy server whose data the next start must
// find intact.
func TestKillEndsBusyServers(t *testing.T) {
	t.Parallel()
	var kill func()
	s := start(t, Config{DataDir: usedDataDir(t), Throwaway: true, Emergency: func(k func()) { kill = k }, Restarted: func(r Restart) { t.Errorf("restarted: %+v", r) }, pace: hasty})
	execute(t, s, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
	pids := map[string]int{}
	for _, c := range s.children {
		pids[c.name] = c.cmd.Process.Pid
	}
	kill()
	for name, pid := range pids {
		if p, ok := inspect(pid); ok {
			t.Errorf("%s still runs: %s", name, p.args)
		}
	}
	_, err := s.spawn(redisServer(s.sockets.path), s.Binaries.Redis, s.DataDir)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, s.Stop(t.Context()))
	select {
	case err := <-s.Died():
		t.Errorf("their exit was reported as unexpected: %v", err)
	default:
	}
	again := start(t, Config{DataDir: s.DataDir, Throwaway: true})
	require.Equal(t, "the row", query(t, again, "SELECT n::text FROM kept"), "1")
}

func TestCancelledStartLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := emptyDataDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	cfg := Config{DataDir: dir, Throwaway: true, Step: func(name string, _ time.Duration) {
		if name == "create the Postgres cluster" {
			cancel()
		}
	}}
	_, err := Start(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	// The same folder can be used immediately, and nothing had to be repaired.
	s := start(t, Config{DataDir: dir, Throwaway: true})
	require.Equal(t, "notices", s.Notices, nil)
}

func TestPostmasterPidOfAnotherProcessIsIgnored(t *testing.T) {
	t.Parallel()
	dir := usedDataDir(t)
	// A process of the same account, with the pid that a crashed Postgres recorded.
	cmd := exec.Command("/bin/sleep", "60")
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	// As a crashed Postgres leaves it.
	write(t, dir, "postgres/postmaster.pid", fmt.Sprintf("%d\n%s/postgres\n%d\n5432\n/nowhere\n\n  1234567         0\nready   \n", cmd.Process.Pid, dir, time.Now().Unix()))
	start(t, Config{DataDir: dir, Throwaway: true})
	require.NoError(t, cmd.Process.Signal(syscall.Signal(0)))
}

func TestPortError(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	addr := ln.Addr().String()
	_, err = net.Listen("tcp", addr)
	assertCondition(t, PortError("--listen", addr, err), CodePortTaken, 10,
		"The address "+addr+" is already in use by another program: stop that program, or choose another address with --listen.")

	_, err = net.Listen("tcp", "192.0.2.1:8080") // a documentation address that no machine has
	assertCondition(t, PortError("--ops-listen", "192.0.2.1:8080", err), CodePortRefused, 11,
		"The address 192.0.2.1:8080 cannot be listened on ("+syscall.EADDRNOTAVAIL.Error()+"): choose another with --ops-listen.")

	_, err = net.Listen("tcp", "127.0.0.1:99999") // no such port
	assertCondition(t, PortError("--listen", "127.0.0.1:99999", errors.Join(err)), CodePortRefused, 11,
		"The address 127.0.0.1:99999 cannot be listened on (address 99999: invalid port): choose another with --listen.")

	require.NoError(t, PortError("--listen", addr, nil))
	if err := PortError("--listen", addr, io.EOF); err == nil {
		t.Error("an unknown error was lost")
	}
}

// assertCondition compares everything that an operator and a script see.
func assertCondition(t *testing.T, err error, code Code, exit int, sentence string) {
	t.Helper()
	var e *StartError
	if !errors.As(err, &e) {
		t.Errorf("got %v, want %s", err, code)
		return
	}
	if e.Code != code || e.Exit != exit || e.Sentence != sentence {
		t.Errorf("got  %s, exit %d:\n%s\nwant %s, exit %d:\n%s", e.Code, e.Exit, e.Sentence, code, exit, sentence)
	}
}
