package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"stampede/platform/workshop/require"
)

// hasty is a pace for tests; a hang is still longer than a busy machine delays a check.
var hasty = pace{
	checkEvery: 50 * time.Millisecond, checkTimeout: 300 * time.Millisecond, retryEvery: 20 * time.Millisecond, hangsAfter: 500 * time.Millisecond,
	firstPause: 20 * time.Millisecond, longestPause: 100 * time.Millisecond, calmAfter: time.Minute,
	givesUpAfter: 300 * time.Millisecond,
}

// supervised starts a stack that restarts its servers, with data in both, and
// returns the reports of the restarts.
func supervised(t *testing.T) (*Stack, <-chan Restart) {
	t.Helper()
	restarts := make(chan Restart, 10)
	s := start(t, Config{
		DataDir: usedDataDir(t), Throwaway: true, RedisSettings: map[string]string{"appendonly": "yes", "appendfsync": "always"},
		Restarted: func(r Restart) { restarts <- r }, pace: hasty,
	})
	execute(t, s, "CREATE TABLE kept (n int)")
	require.NoError(t, redisClient(t, s).Set(t.Context(), "kept", "yes", 0).Err())
	return s, restarts
}

// assertRestarted waits for the restart of both servers and checks that they
// have their data.
func assertRestarted(t *testing.T, s *Stack, restarts <-chan Restart, cause string) {
	t.Helper()
	seen := map[string]bool{}
	for len(seen) < 2 {
		select {
		case r := <-restarts:
			seen[r.Server] = true
			if !strings.Contains(r.Cause, cause) || r.Down <= 0 || r.Down > 10*time.Second {
				t.Errorf("got %+v, want the cause %q", r, cause)
			}
			if _, err := os.Stat(r.Log); err != nil && r.Log != "" {
				t.Errorf("the earlier log: %v", err)
			}
		case err := <-s.Died():
			t.Fatalf("given up: %v", err)
		case <-time.After(30 * time.Second):
			t.Fatalf("restarted within 20 s: %v", seen)
		}
	}
	require.Equal(t, "the table", query(t, s, "SELECT to_regclass('kept')::text"), "kept")
	require.Equal(t, "the key", redisClient(t, s).Get(t.Context(), "kept").Val(), "yes")
}

func TestKilledServersAreRestarted(t *testing.T) {
	t.Parallel()
	s, restarts := supervised(t)
	if err := os.Remove(filepath.Join(s.DataDir, "log", "redis.log")); err != nil { // by an operator who needs the space
		t.Fatal(err)
	}
	require.NoError(t, errors.Join(childOf(t, s, "Postgres").cmd.Process.Kill(), s.KillRedis(t.Context())))
	assertRestarted(t, s, restarts, "exited (signal: killed)")
}

// TestHangingServersAreRestarted stops every process of both servers. One that
// is left would keep the next Postgres from using the shared memory.
func TestHangingServersAreRestarted(t *testing.T) {
	t.Parallel()
	s, restarts := supervised(t)
	connect(t, s) // a backend
	for _, name := range []string{"Postgres", "Redis"} {
		pid := childOf(t, s, name).cmd.Process.Pid
		for _, stopped := range append(forkedBy(pid), pid) {
			if err := syscall.Kill(stopped, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) { // a worker that has ended
				t.Fatal(err)
			}
		}
	}
	assertRestarted(t, s, restarts, "did not answer for ")
}

// TestPostgresThatShutsDownIsRestarted: it would wait for the connections of the pools.
func TestPostgresThatShutsDownIsRestarted(t *testing.T) {
	t.Parallel()
	s, restarts := supervised(t)
	connect(t, s) // for which it waits
	require.NoError(t, childOf(t, s, "Postgres").cmd.Process.Signal(syscall.SIGTERM))
	select {
	case r := <-restarts:
		require.Contains(t, "the cause", r.Cause, "did not answer for ")
	case <-time.After(30 * time.Second):
		t.Fatal("not restarted")
	}
}

// TestHangIsFoundInTime: of the ten seconds in which a sale goes on, the start and
// the Loads need six.
func TestHangIsFoundInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := part{check: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		began := time.Now() // the server hangs immediately after a check
		cause, _ := (&Stack{cfg: Config{pace: usualPace}}).lost(t.Context(), hangs, &child{done: make(chan struct{})})
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("found after %s: %s", took, cause)
		}
	})
}

// TestServerThatCannotStartAgain: an error that lasts ends the stack with its
// sentence, and a stop does not wait for it.
func TestServerThatCannotStartAgain(t *testing.T) {
	t.Parallel()
	for _, stop := range []bool{false, true} {
		s, _ := supervised(t)
		folder := filepath.Join(s.DataDir, "redis")
		require.NoError(t, os.Rename(folder, folder+".gone"))
		require.NoError(t, childOf(t, s, "Redis").cmd.Process.Kill())
		if stop {
			if err := s.Stop(t.Context()); err != nil || len(s.Died()) > 0 {
				t.Errorf("stop: %v, %d reports", err, len(s.Died()))
			}
			continue
		}
		select {
		case err := <-s.Died():
			assertCondition(t, err, CodeChildFailed, 23, "Redis did not start; the cause is at the end of "+s.DataDir+"/log/redis.log.")
		case <-time.After(30 * time.Second):
			t.Fatal("not given up")
		}
	}
}
