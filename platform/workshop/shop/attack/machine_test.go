package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestAttackDangerousSettingsAreRefused: each of these made a shop that anyone
// could buy from, log in to, or claim any address at, without a word.
func TestAttackDangerousSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"--sandbox-bank --listen=:8080", "--sandbox-bank is for drills"},
		{"--sandbox-bank --listen=192.0.2.7:8080", "--sandbox-bank is for drills"},
		{"--sandbox-bank --public-url=https://sale.example.com", "--sandbox-bank is for drills"},
		{"--sandbox-sms --public-url=https://sale.example.com", "--sandbox-sms is for drills"},
		{"--sandbox-sms --listen=[::]:8080", "--sandbox-sms is for drills"},
		{"--trusted-proxies=0.0.0.0/0", "--trusted-proxies must be the networks of your proxies"},
		{"--trusted-proxies=10.0.0.0/8,::/0", "--trusted-proxies must be the networks of your proxies"},
		{"--trusted-proxies=0.0.0.0/1,128.0.0.0/1", "--trusted-proxies must be the networks of your proxies"},
	} {
		require.Contains(t, "the refusal of "+c.args, shop.Refused(t, strings.Split(c.args, " ")...), c.want)
	}
	for _, args := range []string{
		"--sandbox-bank --sandbox-sms", "--sandbox-bank --sandbox-sms --listen=localhost:8080 --public-url=http://127.0.0.1:8080",
		"--sandbox-bank --sandbox-sms --listen=:8080 --practice", "--trusted-proxies=10.0.0.0/8,fc00::/7",
	} {
		require.Equal(t, "the refusal of "+args, shop.Refused(t, strings.Split(args, " ")...), "")
	}
}

// TestAttackBehindHTTPS plays against a server behind a proxy with TLS.
func TestAttackBehindHTTPS(t *testing.T) {
	t.Parallel()
	addr := shop.FreeAddr(t)
	in := shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--listen="+addr, "--public-url=https://sale.example.com", "--practice")
	in.URL = "http://" + addr // not the proxy

	t.Run("headers", func(t *testing.T) {
		t.Parallel()
		names := []string{"Strict-Transport-Security", "Cross-Origin-Opener-Policy", "Content-Security-Policy", "Referrer-Policy", "X-Content-Type-Options"}
		page := shop.Exchange(t, http.MethodGet, in.URL+"/", "", "").Header
		for name, want := range map[string]string{names[0]: "max-age=", names[1]: "same-origin", names[2]: "default-src 'self';"} {
			if got := page.Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s is %q, want %s", name, got, want)
			}
		}
		require.Contains(t, "the policy", page.Get(names[2]), "form-action 'self'", "base-uri 'none'", "object-src 'none'", "frame-ancestors 'none'")
		for _, route := range []string{
			"GET /static/style.css", "GET /docs", "GET /api/v1/sessions", "POST /api/v1/auth/login", "GET /api/v1/orders", "GET /api/v1/admin/alarms",
			"GET /api/v1/ws", "POST /api/v1/payments/sandbox/notify", "POST /api/v1/rush/garbage", "POST /api/v1/rush/gar%2Fbage",
			"GET /api/v1/rush/garbage", "GET /api/v1/nowhere", "HEAD /",
		} {
			method, path, _ := strings.Cut(route, " ")
			a := shop.Exchange(t, method, in.URL+path, "", "")
			for _, name := range names {
				require.Equal(t, fmt.Sprintf("%s of %s, answered %d", name, route, a.Status), a.Header.Get(name), page.Get(name))
			}
		}
	})
	t.Run("a path that is none", func(t *testing.T) {
		t.Parallel()
		for _, id := range []string{"", `a"b\`} {
			a := httpxtest.Send(t, http.DefaultClient, http.MethodPost, in.URL+"/api/v1/rush/garbage", "", "", "X-Request-Id", id)
			if got := a.Header.Get("X-Request-Id"); got == "" || id != "" && got != id || a.Doc["request_id"] != got || a.Doc["code"] != "bad-path" {
				t.Errorf("the request %q has the id %q in %v", id, got, a.Doc)
			}
		}
	})
	t.Run("tokens in the browser's storage", func(t *testing.T) {
		t.Parallel()
		if script := string(shop.Exchange(t, http.MethodGet, in.URL+"/docs/start.js", "", "").Raw); strings.Contains(script, "persistAuthorization") {
			t.Errorf("the page of the documentation keeps operators' tokens: %s", script)
		}
	})
	t.Run("a sandbox in the open and a proxy not trusted are alarms", func(t *testing.T) {
		t.Parallel()
		const code = "dangerous-setting"
		operator := shop.Mint(t, 1, auth.Operator)
		pgtest.Eventually(t, 30*time.Second, func() bool {
			raised := string(shop.Exchange(t, http.MethodGet, in.URL+"/api/v1/admin/alarms?code="+code, operator, "").Raw)
			return strings.Contains(raised, "--sandbox-bank") && strings.Contains(raised, "--trusted-proxies")
		}, "the alarms about the sandbox bank and the proxy")
	})
}
