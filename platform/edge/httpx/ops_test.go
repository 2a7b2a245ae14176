package httpx_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/httpxtest"
)

// askOps sends a request to a real operations listener, as a page or a scraper would.
func askOps(t *testing.T, method, url, host, site string) (status int, body string) {
	t.Helper()
	a := httpxtest.Send(t, http.DefaultClient, method, url, "", "", "Host", host, "Sec-Fetch-Site", site)
	return a.Status, string(a.Raw)
}

func opsServer(t *testing.T) string {
	t.Helper()
	healthy := func(context.Context) (bool, map[string]error) { return true, nil }
	srv := httptest.NewServer(httpx.Ops("ops.sale.example.com", prometheus.NewRegistry(), healthy))
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestAttackCommandLineOnOpsPort: this process's command line stands for one with a signing key.
func TestAttackCommandLineOnOpsPort(t *testing.T) {
	t.Parallel()
	url := opsServer(t)
	for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof/cmdline/", "/debug/pprof//cmdline", "/debug/pprof/%63mdline"} {
		if status, body := askOps(t, http.MethodGet, url+path, "", ""); status == http.StatusOK || strings.Contains(body, os.Args[0]) {
			t.Errorf("GET %s = %d %q", path, status, body)
		}
	}
}

func TestAttackDNSRebindingOnOpsPort(t *testing.T) {
	t.Parallel()
	url := opsServer(t)
	for _, path := range []string{"/metrics", "/readyz", "/livez", "/debug/pprof/", "/debug/pprof/heap"} {
		for _, host := range []string{"evil.example", "evil.example:9180", "127.0.0.1.nip.example", "localhost.evil.example.", "evil.example.com"} {
			if status, body := askOps(t, http.MethodGet, url+path, host, ""); status != http.StatusMisdirectedRequest {
				t.Errorf("GET %s with Host %s = %d %.60q, want 421", path, host, status, body)
			}
		}
		for _, site := range []string{"cross-site", "same-site"} {
			if status, _ := askOps(t, http.MethodGet, url+path, "", site); status != http.StatusForbidden {
				t.Errorf("GET %s of a %s page = %d, want 403", path, site, status)
			}
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			if status, _ := askOps(t, method, url+path, "", ""); status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s = %d, want 405", method, path, status)
			}
		}
	}
	for _, host := range []string{
		"", "localhost", "LOCALHOST:9180", "127.0.0.1:9180", "[::1]:9180", "[::1]", "10.1.2.3", "stampede:9180",
		"stampede.shop.svc.cluster.local:9180", "vm.c.shop.internal", "ops.sale.example.com:9180", "ops.sale.example.com.",
	} {
		if status, body := askOps(t, http.MethodGet, url+"/metrics", host, "none"); status != http.StatusOK {
			t.Errorf("GET /metrics with Host %s = %d %q, want 200", host, status, body)
		}
	}
}
