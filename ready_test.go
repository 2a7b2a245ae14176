package main

import (
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/embedded"
	"stampede/platform/pgtest"
)

// killableRedis is a Redis of the test's own, on a port that stays the same
// from one start to the next.
type killableRedis struct {
	addr string
	dir  string
	cmd  *exec.Cmd
}

func (r *killableRedis) start(t *testing.T) {
	t.Helper()
	programs, err := embedded.Find()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(r.addr)
	r.cmd = exec.Command(programs.Redis, "--bind", "127.0.0.1", "--port", port, "--dir", r.dir,
		"--save", "", "--logfile", filepath.Join(r.dir, "log"))
	r.cmd.Env = embedded.ChildEnv(programs.Redis) // an unpacked server needs its libraries
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: r.addr})
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
	var lc net.ListenConfig
	free, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &killableRedis{addr: free.Addr().String(), dir: t.TempDir()}
	_ = free.Close()
	r.start(t)
	t.Cleanup(r.kill)
	return r
}

// TestReadinessNamesTheStoreThatIsAway takes Redis away from a running server
// and gives it back.
func TestReadinessNamesTheStoreThatIsAway(t *testing.T) {
	t.Parallel()
	store := newKillableRedis(t)
	in := serveInstance(t, pgtest.DatabaseURL(t), "redis://"+store.addr+"/0")
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
