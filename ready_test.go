package main

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/workshop/embedded"
	"stampede/platform/workshop/pgtest"
)

// killableRedis is a private Redis of the test, on a socket that stays the same
// across restarts: another process could take a port meanwhile.
type killableRedis struct {
	dir string
	cmd *exec.Cmd
}

func (r *killableRedis) socket() string { return filepath.Join(r.dir, "redis.sock") }

func (r *killableRedis) start(t *testing.T) {
	t.Helper()
	programs, err := embedded.Find()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd = exec.Command(programs.Redis, "--port", "0", "--unixsocket", r.socket(), "--dir", r.dir, "--save", "", "--logfile", filepath.Join(r.dir, "log"))
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: r.socket()})
	defer func() { _ = client.Close() }()
	pgtest.Eventually(t, 30*time.Second, func() bool { return client.Ping(t.Context()).Err() == nil }, "redis-server answers")
}

// kill ends the server; a second call does nothing.
func (r *killableRedis) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

func newKillableRedis(t *testing.T) *killableRedis {
	t.Helper()
	r := &killableRedis{dir: filepath.Dir(dataDir(t))} // short enough for a socket's name
	r.start(t)
	t.Cleanup(r.kill)
	return r
}

// TestReadinessNamesTheUnavailableStore kills the Redis of a running server and
// restarts it.
func TestReadinessNamesTheUnavailableStore(t *testing.T) {
	t.Parallel()
	store := newKillableRedis(t)
	in := serveInstance(t, pgtest.DatabaseURL(t), "unix://"+store.socket())
	ready := in.opsURL(t) + "/readyz"
	// readiness returns the status and the message for each component.
	readiness := func() (status int, redisOK bool, why string, others bool) {
		status, doc := in.call(t, http.MethodGet, ready, "", nil)
		others = true
		components, _ := doc["components"].(map[string]any)
		for _, name := range []string{"postgres", "nats", "process"} {
			c, _ := components[name].(map[string]any)
			others = others && c["ok"] == true
		}
		c, _ := components["redis"].(map[string]any)
		redisOK, _ = c["ok"].(bool)
		why, _ = c["why"].(string)
		return status, redisOK, why, others
	}
	if status, ok, why, others := readiness(); status != http.StatusOK || !ok || why != "" || !others {
		t.Fatalf("readyz %d, redis %v %q, others %v; want all ready", status, ok, why, others)
	}
	store.kill()
	var last string
	pgtest.Eventually(t, 30*time.Second, func() bool {
		status, ok, why, others := readiness()
		last = why
		return status == http.StatusServiceUnavailable && !ok && why != "" && others
	}, "503 that names only Redis")
	if strings.Contains(last, "password") || len(last) > 300 {
		t.Errorf("why: %q", last)
	}
	store.start(t)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		status, ok, _, others := readiness()
		return status == http.StatusOK && ok && others
	}, "200 again")
}
