// Package redistest starts Redis servers that belong to one test: a single one,
// a group under sentinels, and a cluster. Tests may kill them, which the shared
// server of platform/workshop/pgtest does not allow.
//
// All listen on 127.0.0.1, keep their files in the test's folder, and end with
// the test. Time-outs are set as low as they stay reliable on a busy machine, so
// that a failover takes one to three seconds instead of the half minute of the
// defaults; nothing else differs from what an operator would run.
package redistest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/workshop/embedded"
	"stampede/platform/workshop/linktest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// ready bounds the wait for a server or a group: seconds on an idle machine, and
// tests run on busy ones.
const ready = 30 * time.Second

// Server is one redis-server that belongs to a test.
type Server struct {
	Addr string
	// Client connects to this server and never to another.
	Client *redis.Client

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has exited
	log   string
}

// Start runs redis-server with the given arguments in addition to the common
// ones, and waits until it answers.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	return start(t, func(port string) []string {
		return append([]string{
			"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--logfile", filepath.Join(dir, "log"),
			"--save", "", "--appendonly", "yes", "--appendfsync", "always",
			// Sync a replica immediately; by default the primary waits five
			// seconds for more replicas.
			"--repl-diskless-sync-delay", "0",
		}, args...)
	}, filepath.Join(dir, "log"))
}

// StartReplica runs a replica and waits until it is in sync.
func StartReplica(t testing.TB, primary *Server) *Server {
	t.Helper()
	replica := Start(t, "--replicaof", "127.0.0.1 "+primary.port())
	pgtest.Eventually(t, ready, func() bool { return replica.inSync() }, "the replica is in sync")
	return replica
}

// start runs redis-server on a free port. Another process may take the port
// before the server uses it, so a server that exits immediately is restarted
// with another port.
func start(t testing.TB, args func(port string) []string, log string) *Server {
	t.Helper()
	programs, err := embedded.Find()
	require.NoError(t, err)
	for range 5 {
		s := &Server{ended: make(chan struct{}), log: log}
		port := freePort(t)
		s.Addr = net.JoinHostPort("127.0.0.1", port)
		s.cmd = exec.Command(programs.Redis, args(port)...) //nolint:gosec,noctx // the program under test; a cleanup ends it
		require.NoError(t, s.cmd.Start())
		go func() {
			_ = s.cmd.Wait() // killed, on purpose
			close(s.ended)
		}()
		t.Cleanup(s.Kill)
		s.Client = redis.NewClient(&redis.Options{Addr: s.Addr})
		t.Cleanup(func() { _ = s.Client.Close() })
		if s.answers(t) {
			return s
		}
	}
	t.Fatalf("redis-server did not start: %s", logOf(log))
	return nil
}

// answers waits for the first PONG and reports false if the process exited before.
func (s *Server) answers(t testing.TB) bool {
	t.Helper()
	over := false
	pgtest.Eventually(t, ready, func() bool {
		select {
		case <-s.ended:
			over = true
			return true
		default:
			return s.Client.Ping(context.Background()).Err() == nil
		}
	}, "redis-server answers")
	return !over
}

// Kill ends the server as a power cut would and returns when it has exited.
// Further calls have no effect.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have exited already
	<-s.ended
}

// port returns the server's port as Redis's commands expect it.
func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// inSync reports whether a replica has what its primary has.
func (s *Server) inSync() bool {
	return s.Client.InfoMap(context.Background(), "replication").Item("Replication", "master_link_status") == "up"
}

// freePort chooses a port below the ephemeral range, since tests open thousands
// of outgoing connections.
func freePort(t testing.TB) string {
	t.Helper()
	return strconv.Itoa(linktest.FreePorts(t, 1, 12_000, 20_000)[0])
}

// logOf returns a server's log.
func logOf(name string) string {
	raw, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
