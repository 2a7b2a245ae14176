package redistest

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/workshop/embedded"
	"stampede/platform/workshop/pgtest"
)

// ready bounds the wait for a server or a group: seconds on an idle machine, and
// tests run on busy ones.
const ready = 30 * time.Second

// Server is one redis-server of a test's own.
type Server struct {
	Addr string
	// Client reaches this server and never another.
	Client *redis.Client

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has been waited for
	log   string
}

// Start runs redis-server with the given arguments added to those that every
// server here has, and waits until it answers.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	return start(t, func(port string) []string {
		return append([]string{
			"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--logfile", filepath.Join(dir, "log"),
			"--save", "", "--appendonly", "yes", "--appendfsync", "always",
			// A replica gets its first copy at once; by default the primary waits
			// five seconds for more replicas.
			"--repl-diskless-sync-delay", "0",
		}, args...)
	}, filepath.Join(dir, "log"))
}

// StartReplica runs a replica and waits until it has its copy.
func StartReplica(t testing.TB, primary *Server) *Server {
	t.Helper()
	replica := Start(t, "--replicaof", "127.0.0.1 "+primary.port())
	pgtest.Eventually(t, ready, func() bool { return replica.info("master_link_status") == "up" }, "the replica has its copy")
	return replica
}

// start runs redis-server on a free port. Between the choice of a port and its
// use another process may take it, so a server that ends at once is tried again
// with another one.
func start(t testing.TB, args func(port string) []string, log string) *Server {
	t.Helper()
	programs, err := embedded.Find()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s := &Server{ended: make(chan struct{}), log: log}
		port := freePort(t)
		s.Addr = net.JoinHostPort("127.0.0.1", port)
		s.cmd = exec.Command(programs.Redis, args(port)...) //nolint:gosec,noctx // the program under test; a clean-up ends it
		if err := s.cmd.Start(); err != nil {
			t.Fatal(err)
		}
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
	t.Fatalf("redis-server does not start: %s", logOf(log))
	return nil
}

// answers waits for the first PONG and reports false when the process ended
// before.
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

// Kill ends the server as a power cut would and returns when it is gone. Calling
// it again has no effect.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.ended
}

// port is the server's port as Redis's commands want it.
func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// info returns one value of the server's INFO, "" when it does not answer.
func (s *Server) info(field string) string {
	text, err := s.Client.Info(context.Background()).Result()
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(text, "\r\n") {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return value
		}
	}
	return ""
}

// freePort chooses among ports below those that the system gives to outgoing
// connections, of which tests make thousands.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(12_000 + rand.IntN(8_000)) //nolint:gosec // a port is no secret
		if l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			_ = l.Close() // it was only asked for
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

// logOf is what a server wrote to its log.
func logOf(name string) string {
	raw, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
