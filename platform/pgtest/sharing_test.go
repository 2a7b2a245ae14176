package pgtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"stampede/platform/pgtest"
)

// userEnv makes TestActAsUser a test process of its own that uses the servers until its standard input ends.
const userEnv = "STAMPEDE_TEST_ACT_AS_USER"

// TestActAsUser is the other process of the tests below.
func TestActAsUser(t *testing.T) {
	if os.Getenv(userEnv) == "" {
		return
	}
	fmt.Println("database", pgtest.DatabaseURL(t)) //nolint:forbidigo // the other test reads it
	fmt.Println("redis", pgtest.RedisURL(t))       //nolint:forbidigo // the other test reads it
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// testProcess is a running TestActAsUser.
type testProcess struct {
	*exec.Cmd
	stdin           io.Closer
	database, redis string
	lines           *bufio.Scanner
}

// startUser starts a test process on a shared folder of its own. It does not wait for its servers.
func startUser(t *testing.T, folder string, env ...string) *testProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &testProcess{Cmd: exec.Command(self, "-test.run", "^TestActAsUser$")}
	p.Env = append(os.Environ(), userEnv+"=1", "STAMPEDE_TEST_FOLDER="+folder, "STAMPEDE_TEST_IDLE=300ms",
		"STAMPEDE_TEST_DATABASE_URL=", "STAMPEDE_TEST_REDIS_URL=")
	p.Env = append(p.Env, env...)
	if p.stdin, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(stdout)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.stdin.Close()
		_ = p.Wait()
	})
	return p
}

// ready waits for the process's URLs.
func (p *testProcess) ready(t *testing.T) {
	t.Helper()
	var said []string
	for p.redis == "" && p.lines.Scan() {
		said = append(said, p.lines.Text())
		if rest, ok := strings.CutPrefix(p.lines.Text(), "database "); ok {
			p.database = rest
		}
		if rest, ok := strings.CutPrefix(p.lines.Text(), "redis "); ok {
			p.redis = rest
		}
	}
	if p.redis == "" {
		t.Fatalf("the test process got no servers: %s", strings.Join(said, "\n"))
	}
}

// works says whether the process's database answers.
func (p *testProcess) works(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.database)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.Ping(ctx) == nil
}

// sharedFolder is a folder for servers apart from those that this test run uses itself.
func sharedFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // root's servers run as another account
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "shared")
	// The keeper lives on for a moment after its last user; only then can the folder be deleted.
	t.Cleanup(func() { waitForKeeper(t, folder) })
	return folder
}

// waitForKeeper waits until no keeper holds its lock.
func waitForKeeper(t *testing.T, folder string) {
	t.Helper()
	pgtest.Eventually(t, 20*time.Second, func() bool {
		file, err := os.Open(filepath.Join(folder, "keeper"))
		if errors.Is(err, fs.ErrNotExist) {
			return true
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil
	}, "the keeper ends")
}

func host(t *testing.T, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("host")
}

func TestProcessesShareServersUntilTheLastHasGone(t *testing.T) {
	t.Parallel()
	folder := sharedFolder(t)
	one, other := startUser(t, folder), startUser(t, folder)
	one.ready(t)
	other.ready(t)
	if host(t, one.database) != host(t, other.database) {
		t.Fatalf("two servers: %s and %s", one.database, other.database)
	}
	if one.database == other.database || one.redis == other.redis {
		t.Fatalf("two processes share a database: %s, %s", one.database, one.redis)
	}

	// A process that is killed gives back its place, and nobody else's.
	if err := one.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = one.Wait()
	time.AfterFunc(time.Second, func() { _ = other.stdin.Close() }) // longer than the idle time: the keeper must wait
	if err := other.Wait(); err != nil {
		t.Fatalf("the process that was left lost its servers: %v", err)
	}

	waitForKeeper(t, folder)
	for _, gone := range []string{filepath.Join(folder, "data"), filepath.Join(folder, "servers.json"), host(t, one.database)} {
		if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", gone, err)
		}
	}

	again := startUser(t, folder)
	again.ready(t)
	if !again.works(t) {
		t.Error("servers that were started again do not work")
	}
}

func TestStaleFolderIsRecovered(t *testing.T) {
	t.Parallel()
	folder := sharedFolder(t)
	// What a machine that lost power in mid-run leaves: a state that is not true any more, and half of the data.
	for name, content := range map[string]string{
		"servers.json":        `{"database_url":"postgres://stampede@/x?host=/nowhere","redis_url":"unix:///nowhere"}`,
		"data/postgres/junk":  "junk",
		"users":               "",
		"servers.json.new":    "{",
		"keeper":              "999999\n",
		"data/log/redis.log":  "old",
		"data/redis/dump.rdb": "not a dump",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := startUser(t, folder)
	first.ready(t)
	if !first.works(t) {
		t.Fatal("the servers do not work")
	}

	// The keeper itself is killed, and its servers live on as orphans.
	raw, err := os.ReadFile(filepath.Join(folder, "keeper"))
	if err != nil {
		t.Fatal(err)
	}
	var keeper int
	if _, err := fmt.Sscan(string(raw), &keeper); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForKeeper(t, folder)
	if !first.works(t) {
		t.Error("the servers ended with their keeper")
	}
	second := startUser(t, folder)
	second.ready(t)
	if !second.works(t) {
		t.Error("the servers of the second keeper do not work")
	}
	if first.works(t) {
		t.Error("the orphans were left running")
	}
}

func TestServersGivenByURLAreUsed(t *testing.T) {
	t.Parallel()
	folder := sharedFolder(t)
	p := startUser(t, folder, "STAMPEDE_TEST_DATABASE_URL="+pgtest.DatabaseURL(t), "STAMPEDE_TEST_REDIS_URL="+pgtest.RedisURL(t))
	p.ready(t)
	if !p.works(t) {
		t.Error("the database does not work")
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("servers were started nevertheless: %v", err)
	}
}

func TestLeakedConnectionFailsItsTest(t *testing.T) {
	t.Parallel()
	spy := &spy{TB: t}
	pool := pgtest.DB(spy)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spy.finish()
	if want := "pgtest: 1 connections were never given back to the pool"; spy.text != want {
		t.Errorf("got %q, want %q", spy.text, want)
	}
	conn.Release()
}
