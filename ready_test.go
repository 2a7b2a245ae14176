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

// killableRedis is a Redis of the test's own, on a socket that stays the same from
// one start to the next: a port could be somebody else's meanwhile.
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
	pgtest.Eventually(t, 20*time.Second, func() bool { return client.Ping(t.Context()).Err() == nil }, "redis-server answers")
}

// kill ends it; a second call does nothing.
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

// TestReadinessNamesTheStoreThatIsAway takes Redis away from a running server
// and gives it back.
func TestReadinessNamesTheStoreThatIsAway(t *testing.T) {
	t.Parallel()
	store := newKillableRedis(t)
	in := serveInstance(t, pgtest.DatabaseURL(t), "unix://"+store.socket())
	ready := in.opsURL(t) + "/readyz"
	// readiness returns the status and what is said of each component.
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
		t.Fatalf("readyz %d, redis %v %q, others %v; want all well", status, ok, why, others)
	}
	store.kill()
	var last string
	pgtest.Eventually(t, 10*time.Second, func() bool {
		status, ok, why, others := readiness()
		last = why
		return status == http.StatusServiceUnavailable && !ok && why != "" && others
	}, "503 that names Redis alone")
	if strings.Contains(last, "password") || len(last) > 300 {
		t.Errorf("why: %q", last)
	}
	store.start(t)
	pgtest.Eventually(t, 15*time.Second, func() bool {
		status, ok, _, others := readiness()
		return status == http.StatusOK && ok && others
	}, "200 again")
}
