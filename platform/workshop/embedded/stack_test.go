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
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	s.mu.Lock()
	for _, c := range s.children {
		c.patience = time.Minute // a slow machine may need more than an operator would wait
	}
	s.mu.Unlock()
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

// connect connects to the stack's Postgres by its URL.
func connect(t *testing.T, s *Stack) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatalf("connect to Postgres: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// execute runs SQL without a result.
func execute(t *testing.T, s *Stack, sql string) {
	t.Helper()
	if _, err := connect(t, s).Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// query runs SQL that returns one text.
func query(t *testing.T, s *Stack, sql string) string {
	t.Helper()
	var answer string
	if err := connect(t, s).QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
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
	if err := first.Stop(t.Context()); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatalf("second stop: %v", err)
	}
	if _, err := os.Stat(first.sockets.path); !os.IsNotExist(err) {
		t.Errorf("the socket folder %s is still there: %v", first.sockets.path, err)
	}
	select {
	case err := <-first.Died():
		t.Errorf("a stop was reported as an unexpected exit: %v", err)
	default:
	}

	second := start(t, cfg)
	if got := query(t, second, "SELECT to_regclass('kept')::text"); got != "kept" {
		t.Errorf("the table did not survive the stop: %q", got)
	}
	if got := redisClient(t, second).Get(t.Context(), "kept").Val(); got != "yes" {
		t.Errorf("the key did not survive the stop: %q", got)
	}
	if len(second.Notices) > 0 {
		t.Errorf("a clean stop was reported as unclean: %q", second.Notices)
	}
	if err := second.Stop(t.Context()); err != nil {
		t.Fatalf("stop: %v", err)
	}

	cfg.Fresh = true
	third := start(t, cfg)
	if got := query(t, third, "SELECT coalesce(to_regclass('kept')::text, 'gone')"); got != "gone" {
		t.Errorf("a fresh start kept the table: %q", got)
	}
	if got := redisClient(t, third).Exists(t.Context(), "kept").Val(); got != 0 {
		t.Errorf("a fresh start kept the key")
	}
	want := []string{"create the Postgres cluster", "start Redis " + third.Binaries.RedisVersion, "delete the old data"}
	for _, name := range want {
		if !strings.Contains(strings.Join(steps, "\n"), name) {
			t.Errorf("step %q was not reported; got %q", name, steps)
		}
	}
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
		if got := query(t, s, "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("Postgres: %s = %q, want %q", setting, got, want)
		}
	}
	client := redisClient(t, s)
	for setting, want := range map[string]string{
		"port": "0", "appendonly": "yes", "appendfsync": "always", "save": "",
		"maxmemory": "536870912", "maxmemory-policy": "noeviction",
	} {
		if got := client.ConfigGet(t.Context(), setting).Val()[setting]; got != want {
			t.Errorf("Redis: %s = %q, want %q", setting, got, want)
		}
	}
	for _, folder := range []string{s.DataDir, s.DataDir + "/postgres", s.DataDir + "/redis", s.sockets.path} {
		info, err := os.Stat(folder)
		require.NoError(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %o", folder, info.Mode().Perm())
		}
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
}

func TestUnexpectedExitOfAServerIsReported(t *testing.T) {
	t.Parallel()
	s := start(t, Config{DataDir: usedDataDir(t), Throwaway: true})
	require.NoError(t, childOf(t, s, "Redis").cmd.Process.Kill())
	select {
	case err := <-s.Died():
		var e *StartError
		want := "Redis exited unexpectedly; the cause is at the end of " + s.DataDir + "/log/redis.log."
		if !errors.As(err, &e) || e.Code != CodeChildEnded || e.Sentence != want {
			t.Errorf("got %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the exit of Redis was not reported")
	}
}

func TestAwkwardPaths(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(filepath.Dir(emptyDataDir(t)), "with spaces, 'quotes' and 秒杀", strings.Repeat("long", 30))
	copySeed(t, dir)
	s := start(t, Config{DataDir: dir, Throwaway: true})
	if got := query(t, s, "SELECT current_setting('data_directory')"); got != dir+"/postgres" {
		t.Errorf("data_directory = %q", got)
	}
	if err := redisClient(t, s).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
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
	if err := s.Stop(ctx); err != nil {
		t.Fatalf("stop: %v", err)
	}
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
	conn := connect(t, s)
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)"); err != nil {
		t.Fatal(err)
	}
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
	if _, err := s.spawn(redisServer(s.sockets.path), s.Binaries.Redis, s.DataDir); !errors.Is(err, context.Canceled) {
		t.Errorf("a server was started after Kill: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
	select {
	case err := <-s.Died():
		t.Errorf("their exit was reported as unexpected: %v", err)
	default:
	}
	again := start(t, Config{DataDir: s.DataDir, Throwaway: true})
	if got := query(t, again, "SELECT n::text FROM kept"); got != "1" {
		t.Errorf("the row is %q", got)
	}
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
	if _, err := Start(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	// The same folder can be used immediately, and nothing had to be repaired.
	s := start(t, Config{DataDir: dir, Throwaway: true})
	if len(s.Notices) > 0 {
		t.Errorf("left behind: %q", s.Notices)
	}
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
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process was stopped: %v", err)
	}
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

	if err := PortError("--listen", addr, nil); err != nil {
		t.Errorf("no error became %v", err)
	}
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
