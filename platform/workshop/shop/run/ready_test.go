package run

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/shop"
)

// TestReadinessNamesTheUnavailableStore cuts a running server off from Redis, and
// lets it reach it again. The server stays in the load balancer: it can answer with 503 and
// Retry-After, and every other instance lacks the same Redis.
func TestReadinessNamesTheUnavailableStore(t *testing.T) {
	t.Parallel()
	store, redisURL := shop.RedisLink(t, pgtest.RedisURL(t))
	in := shop.Serve(t, pgtest.DatabaseURL(t), redisURL)
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
	store.Cut(true)
	var last string
	pgtest.Eventually(t, 30*time.Second, func() bool {
		why := faults()
		last = why["redis"]
		return len(why) == 1 && last != ""
	}, "only Redis is named")
	if strings.Contains(last, "password") || len(last) > 300 {
		t.Errorf("why: %q", last)
	}
	store.Cut(false)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(faults()) == 0 }, "every component is well again")
}
