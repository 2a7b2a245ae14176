package embedded

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stampede/platform/workshop/require"
)

// helperEnv turns the test binary into a process that starts a stack on the
// named folder, prints "ready", and waits.
const helperEnv = "STAMPEDE_EMBEDDED_TEST_DATA"

// helper prints one line, "ready" or the error, and runs until it is killed or
// its standard input ends.
func helper(dir string) {
	s, err := Start(context.Background(), Config{DataDir: dir, Throwaway: true})
	if err != nil {
		fmt.Println(strings.ReplaceAll(err.Error(), "\n", " | ")) //nolint:forbidigo // the test reads it
		return
	}
	fmt.Println("ready")                              //nolint:forbidigo // likewise
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // the end of the input means stop
	if err := s.Stop(context.Background()); err != nil {
		fmt.Println(err) //nolint:forbidigo // likewise
	}
}

// startHelper runs the helper and returns its first line.
func startHelper(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(helperProgram)
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return cmd, strings.TrimSpace(line)
}

func TestOrphansOfAKilledProcessAreEnded(t *testing.T) {
	t.Parallel()
	dir := usedDataDir(t)
	cmd, line := startHelper(t, dir)
	require.Equal(t, "said", line, "ready")
	_, err := Start(t.Context(), Config{DataDir: dir})
	assertCondition(t, err, CodeLockHeld, 13, fmt.Sprintf("Another stampede (pid %d) is using the data folder %s: "+
		"stop it first, or choose another folder with --data.", cmd.Process.Pid, dir))

	require.NoError(t, cmd.Process.Kill())
	_, _ = cmd.Process.Wait()
	orphans := orphansOn(t, dir)
	require.Equal(t, "servers that live on", len(orphans), 2)
	s := start(t, Config{DataDir: dir, Throwaway: true})
	want := fmt.Sprintf("An earlier stampede (pid %d) ended without a clean stop; the servers it left running on %s were stopped, "+
		"and this start continues with its data.", cmd.Process.Pid, dir)
	require.Equal(t, "notices", s.Notices, []string{want})
	for pid, args := range orphans {
		if p, ok := inspect(pid); ok && p.args == args {
			t.Errorf("orphan %d still runs: %s", pid, p.args)
		}
	}
	require.Equal(t, "the answer", query(t, s, "SELECT 'alive'"), "alive")
}

// TestCopyOfAFolderInUse starts on a copy with the original's lock and pid
// files. The processes they name are not the copy's, and a start that stopped
// none must not claim that it did.
func TestCopyOfAFolderInUse(t *testing.T) {
	t.Parallel()
	original, copied := usedDataDir(t), usedDataDir(t)
	s := start(t, Config{DataDir: original, Throwaway: true})
	for _, name := range []string{lockName, "postgres/postmaster.pid", "redis/redis.pid"} {
		raw, err := os.ReadFile(filepath.Join(original, name))
		require.NoError(t, err)
		write(t, copied, name, string(raw))
	}
	second := start(t, Config{DataDir: copied, Throwaway: true})
	want := fmt.Sprintf("The stampede that last used %s (pid %d) did not stop cleanly, or the folder is a copy of one in use; "+
		"none of its servers was left running here, and this start continues with the data.", copied, os.Getpid())
	require.Equal(t, "notices", second.Notices, []string{want})
	select {
	case err := <-s.Died():
		t.Errorf("the original was stopped: %v", err)
	default:
	}
	require.Equal(t, "the answer", query(t, s, "SELECT 'alive'"), "alive")
}

func TestStartWaitsForBusyBackendOfAKilledPostgres(t *testing.T) {
	t.Parallel()
	dir := usedDataDir(t)
	first := start(t, Config{DataDir: dir, Throwaway: true})
	conn := connect(t, first)
	_, err := conn.Exec(t.Context(), "CREATE TABLE kept (n int)")
	require.NoError(t, err)
	// The loop never waits, so the backend notices only at its end that its
	// parent is gone.
	busy := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), `DO $$ DECLARE begun timestamptz := clock_timestamp();
			BEGIN WHILE clock_timestamp() < begun + interval '1500 ms' LOOP END LOOP; END $$`)
		busy <- err
	}()
	watcher := connect(t, first)
	deadline := time.Now().Add(10 * time.Second)
	for running := 0; running == 0; {
		err := watcher.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO %' AND state = 'active'").Scan(&running)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the backend is not busy: %v", err)
		}
	}
	require.NoError(t, childOf(t, first, "Postgres").cmd.Process.Kill())
	<-first.Died() //nolint:errcheck // it only says that it was killed
	require.NoError(t, first.Stop(t.Context()))
	second := start(t, Config{DataDir: dir, Throwaway: true})
	if raw, err := os.ReadFile(filepath.Join(dir, "log", "postgres.log")); err != nil || strings.Contains(string(raw), "FATAL:  pre-existing") {
		t.Errorf("the last attempt is not the successful one: %s, %v", raw, err)
	}
	require.Equal(t, "the table", query(t, second, "SELECT to_regclass('kept')::text"), "kept")
	<-busy //nolint:errcheck // the loop's result does not matter
}

// childOf is one of the stack's servers.
func childOf(t *testing.T, s *Stack, name string) *child {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no %s among the children", name)
	return nil
}

// orphansOn finds the servers of a data folder by their pid files, with their command lines.
func orphansOn(t *testing.T, dir string) map[int]string {
	t.Helper()
	found := map[int]string{}
	for _, name := range []string{"postgres/postmaster.pid", "redis/redis.pid"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		var pid int
		_, err = fmt.Sscan(string(raw), &pid)
		require.NoError(t, err)
		if p, ok := inspect(pid); ok {
			found[pid] = p.args
		}
	}
	return found
}

// assertOnlyOurOwn checks that a start would stop none but the servers of its own folder and account.
func assertOnlyOurOwn(t *testing.T, s *Stack) {
	t.Helper()
	pg := childOf(t, s, "Postgres")
	p, ok := inspect(pg.cmd.Process.Pid)
	if !ok {
		t.Fatal("Postgres is not there")
	}
	for what, other := range map[string]server{
		"another folder": postgresServer(s.DataDir + "2"),
		"a folder above": postgresServer(filepath.Dir(s.DataDir)),
		"another server": redisServer(s.sockets.path),
	} {
		if other.isOurs(p) {
			t.Errorf("mistaken for one of %s: %s", what, p.args)
		}
	}
	p.uid++
	if pg.isOurs(p) {
		t.Error("a process of another account was mistaken for ours")
	}
}

// A process that the last holder was starting may have the lock for a moment longer.
func TestLockThatWasGivenBack(t *testing.T) {
	t.Parallel()
	d := &dataDir{path: emptyDataDir(t)}
	require.NoError(t, os.MkdirAll(d.path, 0o700))
	held, err := os.Create(d.at(lockName))
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(held.Fd()), unix.LOCK_EX))
	time.AfterFunc(3*lockGivenBack/100, func() { _ = held.Close() })
	require.NoError(t, d.takeLock(t.Context()))
	require.NoError(t, d.lock.Close())
}
