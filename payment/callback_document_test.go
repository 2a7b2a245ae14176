package payment

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// TestCallbacksAreDocumented: they are plain handlers, which huma does not
// document automatically.
func TestCallbacksAreDocumented(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now)
	rt := httpx.NewRouter(tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	s := &Service{}
	s.Routes(rt)
	paths := rt.API.Huma.OpenAPI().Paths
	for _, url := range []string{s.notifyURL("{provider}"), s.refundNotifyURL("{provider}")} {
		item := paths[url]
		if item == nil || item.Post == nil {
			t.Errorf("POST %s, a path given to providers, is not documented", url)
			continue
		}
		for _, status := range []string{"200", "400", "401", "404", "503"} {
			if item.Post.Responses[status] == nil {
				t.Errorf("POST %s: no answer %s", url, status)
			}
		}
		if len(item.Post.Parameters) != 1 || item.Post.RequestBody == nil || len(item.Post.Security) != 0 {
			t.Errorf("POST %s: %+v", url, item.Post)
		}
	}
}
