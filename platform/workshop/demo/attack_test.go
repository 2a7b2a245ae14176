package demo

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/require"
)

// TestAttackDemoRoutesFromAnotherSite: any page that the operator visits could
// start crowds, and one whose name is pointed at this machine could get tokens.
func TestAttackDemoRoutesFromAnotherSite(t *testing.T) {
	t.Parallel()
	log, tokens := slog.New(slog.DiscardHandler), auth.NewTokens([]byte("a signing key of thirty-two bytes"), time.Now)
	s, err := New(Deps{
		BaseURL: "http://demo.example.com", Tokens: tokens, Log: log, Every: MinEvery,
		Books:     func(context.Context, int64) (any, error) { return nil, nil },
		Prove:     func(context.Context) []proof.Outcome { return nil },
		KillRedis: func(context.Context) error { return nil }, Readiness: func(context.Context) (bool, map[string]error) { return true, nil },
	})
	require.NoError(t, err)
	rt := httpx.NewRouter(tokens, log, "test", prometheus.NewRegistry())
	s.Routes(rt)
	srv := httptest.NewServer(rt)
	t.Cleanup(srv.Close)
	ask := func(path, host, kind, header, value string) (int, string) {
		a := httpxtest.Send(t, http.DefaultClient, http.MethodPost, srv.URL+path, "", "{}", "Host", host, "Content-Type", kind, header, value)
		return a.Status, string(a.Raw)
	}
	const json = "application/json"
	for _, path := range []string{"/demo/me", "/demo/shoppers", "/demo/prove", "/demo/kill-redis"} {
		for _, c := range []struct{ host, kind, header, value string }{
			{"", "text/plain", "", ""},
			{"", "", "", ""},
			{"", "application/x-www-form-urlencoded", "", ""},
			{"", json, "Sec-Fetch-Site", "cross-site"},
			{"", json, "Sec-Fetch-Site", "same-site"},
			{"", json, "Origin", "https://evil.example"},
			{"", json, "Origin", "null"},
			{"evil.example:8080", json, "Origin", "http://evil.example:8080"},
			{"evil.example:8080", json, "Sec-Fetch-Site", "same-origin"},
		} {
			if status, body := ask(path, c.host, c.kind, c.header, c.value); status != http.StatusForbidden {
				t.Errorf("POST %s %+v = %d %.80s, want 403", path, c, status, body)
			}
		}
	}
	for _, c := range []struct{ host, header, value string }{
		{"", "", ""}, {"demo.example.com", "Sec-Fetch-Site", "same-origin"}, {"demo.example.com", "Origin", "https://demo.example.com"}, {"192.168.1.7:8080", "", ""},
	} {
		if status, body := ask("/demo/me", c.host, json+"; charset=utf-8", c.header, c.value); status != http.StatusOK {
			t.Errorf("POST /demo/me %+v = %d %s, want 200", c, status, body)
		}
	}
}
