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
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// userEnv turns TestActAsUser into a separate test process that uses the
// servers until its standard input ends.
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

// startUser starts TestActAsUser and waits for its URLs.
func startUser(t *testing.T, env ...string) (cmd *exec.Cmd, database, redis string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.CommandContext(t.Context(), self, "-test.run", "^TestActAsUser$")
	cmd.Env = append(append(os.Environ(), userEnv+"=1"), env...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	var said []string
	for lines := bufio.NewScanner(stdout); redis == "" && lines.Scan(); {
		said = append(said, lines.Text())
		if rest, ok := strings.CutPrefix(lines.Text(), "database "); ok {
			database = rest
		}
		if rest, ok := strings.CutPrefix(lines.Text(), "redis "); ok {
			redis = rest
		}
	}
	if redis == "" {
		t.Fatalf("the test process got no servers: %s", strings.Join(said, "\n"))
	}
	return cmd, database, redis
}

func works(t *testing.T, database string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.Ping(ctx) == nil
}

// host is the folder of the server's socket, which is removed last when servers stop.
func host(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	return u.Query().Get("host")
}

func TestServersEndWithAKilledProcess(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	for _, dir := range []string{temp, filepath.Dir(temp)} {
		if err := os.Chmod(dir, 0o777); err != nil { // root's servers run as another account
			t.Fatal(err)
		}
	}
	user, database, _ := startUser(t, "STAMPEDE_TEST_DATABASE_URL=", "STAMPEDE_TEST_REDIS_URL=", "STAMPEDE_TEST_SERVERS=", "TMPDIR="+temp)
	if !works(t, database) {
		t.Fatal("the servers do not work")
	}
	require.NoError(t, user.Process.Kill())
	pgtest.Eventually(t, 30*time.Second, func() bool {
		_, err := os.Stat(host(t, database))
		left, readErr := os.ReadDir(temp)
		return errors.Is(err, fs.ErrNotExist) && readErr == nil && len(left) == 0 && !works(t, database)
	}, "the servers end and their data is deleted")
}

func TestServersGivenByURLAreUsed(t *testing.T) {
	t.Parallel()
	mine := pgtest.DatabaseURL(t)
	_, database, redis := startUser(t, "STAMPEDE_TEST_DATABASE_URL="+mine, "STAMPEDE_TEST_REDIS_URL="+pgtest.RedisURL(t))
	if host(t, database) != host(t, mine) || database == mine || redis == "" || !works(t, database) {
		t.Errorf("%s is not a separate database on the server of %s", database, mine)
	}
}

func TestLeakedConnectionFailsItsTest(t *testing.T) {
	t.Parallel()
	spy := &spy{TB: t}
	pool := pgtest.DB(spy)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	spy.finish()
	require.Equal(t, "said", spy.text, "pgtest: 1 connections were never returned to the pool")
	conn.Release()
}
