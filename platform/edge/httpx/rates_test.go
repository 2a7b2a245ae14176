package httpx

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/require"
)

// rated is a router with limits in memory, a route of each role and of each load.
func rated(t *testing.T, shoppers int) (send func(method, path, token, addr, body string) (status int, rule string), mint func(user int64, role auth.Role) string, rt *Router) {
	t.Helper()
	tokens := auth.NewTokens([]byte(strings.Repeat("k", auth.MinKeyBytes)), time.Now)
	log := slog.New(slog.DiscardHandler)
	proxies, err := ParseProxies([]string{"10.0.0.0/8"}, XForwardedFor)
	require.NoError(t, err)
	rt = Options{Proxies: proxies, Shoppers: shoppers, Limiter: ratelimit.New(nil, log, prometheus.NewRegistry())}.
		NewRouter(tokens, log, "test", prometheus.NewRegistry())
	Register(rt.API, Op{Method: http.MethodPost, Path: "/api/v1/auth/refresh", ID: "refresh", NoKey: "a test", Load: Costly}, none)
	Register(rt.API, Op{Method: http.MethodPost, Path: "/api/v1/other", ID: "other", NoKey: "a test", Load: Costly}, none)
	Register(rt.API, Op{Method: http.MethodPost, Path: "/api/v1/admin/pause", ID: "pause", NoKey: "a test", Tag: operatorTag, Role: auth.Operator, Audit: "test"}, none)
	rt.Handle(Held, http.MethodGet, "/api/v1/ws", ok)
	rt.Handle(Critical, http.MethodPost, "/api/v1/payments/{provider}/notify", ok)
	rt.Handle(Static, http.MethodGet, "/", ok)
	send = func(method, path, token, addr, body string) (int, string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.RemoteAddr = addr
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, r)
		var said struct{ Rule string }
		_ = json.Unmarshal(w.Body.Bytes(), &said)
		return w.Code, said.Rule
	}
	mint = func(user int64, role auth.Role) string {
		t.Helper()
		return httpxtest.Token(t, tokens, auth.Principal{UserID: user, Role: role})
	}
	return send, mint, rt
}

// allowed sends until a request is refused, at most n times.
func allowed(n int, send func() (int, string)) (times int, rule string) {
	for times = range n {
		if status, rule := send(); status == http.StatusTooManyRequests {
			return times, rule
		}
	}
	return n, ""
}

// TestAttackRatesOfARoute floods a route: its user, its address and all together are
// limited, whether the requests are valid or not, and other routes, addresses and
// exempt ones are not affected.
func TestAttackRatesOfARoute(t *testing.T) {
	t.Parallel()
	const many = 5000
	refresh := func(send func(method, path, token, addr, body string) (int, string), token, addr, body string) func() (int, string) {
		return func() (int, string) { return send(http.MethodPost, "/api/v1/auth/refresh", token, addr, body) }
	}
	for name, test := range map[string]struct {
		addr, body string
		user       bool
		least      int // quota, without what is refilled meanwhile
		rule       string
	}{
		"an address":                    {addr: "203.0.113.7:1", body: `{"Name":"x"}`, least: 10 * rates[Costly].shopper, rule: "costly-address"},
		"an address, malformed bodies":  {addr: "203.0.113.7:1", body: `{"Name`, least: 10 * rates[Costly].shopper, rule: "costly-address"},
		"a user":                        {addr: "127.0.0.1:1", body: `{"Name":"x"}`, user: true, least: rates[Costly].user, rule: "costly-user"},
		"a user behind a trusted proxy": {addr: "10.0.0.1:1", body: `{"Name":"x"}`, user: true, least: rates[Costly].user, rule: "costly-user"},
		"this machine":                  {addr: "127.0.0.1:1", body: `{"Name":"x"}`, least: many},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			send, mint, _ := rated(t, 10)
			token := ""
			if test.user {
				token = mint(7, auth.Shopper)
			}
			n, rule := allowed(many, refresh(send, token, test.addr, test.body))
			if n < test.least || rule != test.rule {
				t.Errorf("%d allowed, refused by %q; want %d, %q", n, rule, test.least, test.rule)
			}
			if status, _ := send(http.MethodPost, "/api/v1/other", token, test.addr, `{"Name":"x"}`); status == http.StatusTooManyRequests {
				t.Error("another route is refused too")
			}
			if status, _ := refresh(send, "", "203.0.113.8:1", `{"Name":"x"}`)(); status != http.StatusNoContent {
				t.Errorf("another address: %d", status)
			}
		})
	}
	t.Run("the total", func(t *testing.T) {
		t.Parallel()
		send, _, rt := rated(t, 10)
		rt.gate.rater.total[Costly].Count = 100
		if n, rule := allowed(many, refresh(send, "", "127.0.0.1:1", `{"Name":"x"}`)); n < 100 || rule != "costly-total" {
			t.Errorf("%d allowed, refused by %q", n, rule)
		}
	})
	t.Run("sockets before their token", func(t *testing.T) {
		t.Parallel()
		send, _, _ := rated(t, 10)
		n, rule := allowed(many, func() (int, string) { return send(http.MethodGet, "/api/v1/ws", "", "203.0.113.7:1", "") })
		if n < 10*rates[Stream].shopper || rule != "stream-address" {
			t.Errorf("%d allowed, refused by %q", n, rule)
		}
	})
}

// TestRatesFitACrowdBehindOneAddress plays what the shoppers of a mobile carrier's
// address do around an opening: each reloads the page five times in a second, then
// polls every 2 s. The limits refill meanwhile in reality; here they do not.
func TestRatesFitACrowdBehindOneAddress(t *testing.T) {
	t.Parallel()
	const reloads, polls = 5, int(rateWindow / (2 * time.Second))
	if got := rates[Read].shopper; got < reloads+polls {
		t.Errorf("%d reads of a shopper in %s, want %d", got, rateWindow, reloads+polls)
	}
	// A list of orders and a renewed token per visit, and a payment repeated once.
	if got := rates[Costly].shopper; got < 2 {
		t.Errorf("%d costly requests of a shopper in %s", got, rateWindow)
	}
	// Polls right after a rush follow poll_after_ms, 200 ms at least.
	if got, want := rates[Read].user, int(rateWindow/(200*time.Millisecond)); got < want {
		t.Errorf("%d reads of a user in %s, want %d", got, rateWindow, want)
	}
	for l := Read; l < loadKinds; l++ {
		if of := rates[l]; of.total == 0 || of.user != 0 && of.shopper > of.user {
			t.Errorf("%s: %+v", l, of)
		}
	}
}

func TestLoadsFollowFromTheRoute(t *testing.T) {
	t.Parallel()
	_, _, rt := rated(t, 10)
	for route, want := range map[route]Load{
		{"POST", "/api/v1/auth/refresh"}: Costly, {"POST", "/api/v1/admin/pause"}: Staff, {"GET", "/api/v1/ws"}: Stream,
		{"POST", "/api/v1/payments/{provider}/notify"}: Callback, {"GET", "/unknown"}: Read, {"POST", "/unknown"}: Write,
		{"HEAD", "/unknown"}: Read,
	} {
		require.Equal(t, route.method+" "+route.pattern, rt.API.routes.of(route.method, route.pattern).loadOf(route.method), want)
	}
}

// TestOperationSaysAllAboutItself: a caller may repeat each POST, and each change by the staff is recorded.
func TestOperationSaysAllAboutItself(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]Op{
		"a POST without a key or a reason": {Method: http.MethodPost, Role: auth.Shopper},
		"a change without a record":        {Method: http.MethodPut, Role: auth.Operator},
	} {
		_, _, rt := rated(t, 10)
		op.Path, op.ID = "/api/v1/incomplete", "incomplete"
		require.Panics(t, name, func() { Register(rt.API, op, none) })
	}
}
