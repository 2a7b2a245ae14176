package run

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
	"stampede/platform/workshop/shop"
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
	r := &killableRedis{dir: filepath.Dir(shop.DataDir(t))} // short enough for a socket's name
	r.start(t)
	t.Cleanup(r.kill)
	return r
}

// TestReadinessNamesTheUnavailableStore kills the Redis of a running server and
// restarts it. The server stays in the load balancer: it can answer with 503 and
// Retry-After, and every other instance lacks the same Redis.
func TestReadinessNamesTheUnavailableStore(t *testing.T) {
	t.Parallel()
	store := newKillableRedis(t)
	in := shop.Serve(t, pgtest.DatabaseURL(t), "unix://"+store.socket())
	// faults returns the messages by component.
	faults := func() map[string]string {
		status, doc := in.Call(t, http.MethodGet, in.OpsURL(t)+"/readyz", "", nil)
		why := map[string]string{}
		components, _ := doc["components"].(map[string]any)
		for _, name := range []string{"postgres", "redis", "nats", "orders", "items", "process"} {
			c, _ := components[name].(map[string]any)
			if c["ok"] != true {
				why[name], _ = c["why"].(string)
			}
		}
		if status != http.StatusOK || doc["ready"] != true || doc["degraded"] != (len(why) > 0) {
			t.Errorf("readyz answered %d: %v", status, doc)
		}
		return why
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(faults()) == 0 }, "every component is well")
	store.kill()
	var last string
	pgtest.Eventually(t, 30*time.Second, func() bool {
		why := faults()
		last = why["redis"]
		return len(why) == 1 && last != ""
	}, "only Redis is named")
	if strings.Contains(last, "password") || len(last) > 300 {
		t.Errorf("why: %q", last)
	}
	store.start(t)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(faults()) == 0 }, "every component is well again")
}
