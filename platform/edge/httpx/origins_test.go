package httpx_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// Pages of the listed origins may call the API, its refusals and the rush included, and
// no page whose origin only looks like one.
func TestPagesOfAllowedOrigins(t *testing.T) {
	t.Parallel()
	const shop, local = "https://shop.example.com", "http://localhost:3000"
	rt, _ := newRouter(t, httpx.Options{Origins: []string{shop, local}})
	rt.Mux.Get("/api/v1/things", func(http.ResponseWriter, *http.Request) {})
	rt.Mux.Get("/admin", func(http.ResponseWriter, *http.Request) {})
	rt.Direct("/api/v1/rush/", func(_ context.Context, _ *httpx.DirectRequest, reply *httpx.DirectAnswer) {
		reply.Status = http.StatusAccepted
	})
	for _, c := range []struct {
		method, path, origin, allowed string
	}{
		{"GET", "/api/v1/things", shop, shop},
		{"GET", "/api/v1/things", local, local},
		{"GET", "/api/v1/nothing", shop, shop}, // a refusal can be read too
		{"POST", "/api/v1/rush/x", shop, shop},
		{"OPTIONS", "/api/v1/things", shop, shop},
		{"OPTIONS", "/api/v1/rush/x", shop, shop},
		{"GET", "/api/v1/things", "", ""},
		{"GET", "/api/v1/things", "null", ""},
		{"OPTIONS", "/api/v1/things", "null", ""},
		{"OPTIONS", "/api/v1/things", "*", ""},
		{"GET", "/api/v1/things", "http://shop.example.com", ""},
		{"GET", "/api/v1/things", "https://shop.example.com:8443", ""},
		{"GET", "/api/v1/things", "https://www.shop.example.com", ""},
		{"GET", "/api/v1/things", "https://evilshop.example.com", ""},
		{"GET", "/api/v1/things", "https://shop.example.com.evil.example", ""},
		{"GET", "/api/v1/things", "https://shop.example.co", ""},
		{"GET", "/admin", shop, ""},
		{"OPTIONS", "/admin", shop, ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "authorization,idempotency-key")
		}
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, r)
		name := c.method + " " + c.path + " from " + c.origin
		require.Equal(t, name, w.Header().Get("Access-Control-Allow-Origin"), c.allowed)
		require.Equal(t, name+": with credentials", w.Header().Get("Access-Control-Allow-Credentials"), "")
		if c.allowed != "" && c.method != http.MethodOptions {
			require.Contains(t, name+": what its page may read", w.Header().Get("Access-Control-Expose-Headers"), "Idempotency-Replayed", "Ratelimit", "Retry-After")
		}
		if c.path != "/admin" { // a cache keeps an answer for each origin
			require.Contains(t, name+": Vary", strings.Join(w.Header().Values("Vary"), " "), "Origin")
		}
	}
}

func TestAllowedOriginsAreExact(t *testing.T) {
	t.Parallel()
	addresses := httpx.Addresses{Listen: ":80", OpsListen: ":81", AllowedOrigins: []string{"https://shop.example.com", "https://shop.example.com:8443", "http://127.0.0.1:3000"}}
	require.NoError(t, addresses.Check())
	for _, origin := range []string{
		"", "*", "null", "shop.example.com", "https://", "https://*.example.com", "https://shop.example.com/", "https://Shop.example.com",
		"http://shop.example.com", "https://user@shop.example.com", "file:///x", "https://shop.example.com?x", "https://shop.example.com#x",
		"https://shop.example.com:443", "http://localhost:80", "https://shop.example.com:", "https://商店.example.com", "http://[::1]:3000", "https://shop.example.com\n",
	} {
		addresses.AllowedOrigins = []string{origin}
		if addresses.Check() == nil {
			t.Errorf("%q is accepted as an origin", origin)
		}
	}
}

// The name of the rush is another site to the shop's own pages.
func TestRushURL(t *testing.T) {
	t.Parallel()
	a := httpx.Addresses{Listen: ":80", OpsListen: ":81", PublicURL: "https://Sale.example.com/", AllowedOrigins: []string{"https://shop.example.com"}}
	require.Equal(t, "sites without it", a.Origins(), []string{"https://shop.example.com"})
	a.RushURL, a.OrderURL = "https://rush.example.com", "https://shop.example.com/orders"
	require.NoError(t, a.Check())
	require.Equal(t, "sites with it", a.Origins(), []string{"https://shop.example.com", "https://sale.example.com"})
	for base, origin := range map[string]string{
		"https://x:443": "https://x", "HTTPS://X:443/": "https://x", "https://x:80": "https://x:80", "https://x:8443": "https://x:8443", "http://127.0.0.1:80": "http://127.0.0.1", "http://127.0.0.1:443": "http://127.0.0.1:443",
	} {
		own := httpx.Addresses{PublicURL: base, RushURL: a.RushURL}
		require.Equal(t, base+" as an origin", own.Origins(), []string{origin})
	}
	require.Equal(t, "a usual port of --listen", httpx.Addresses{Listen: ":80", RushURL: a.RushURL}.Origins(), []string{"http://127.0.0.1"})
	for _, wrong := range []string{"rush.example.com", "https://rush.example.com/", "https://rush.example.com/api", "http://rush.example.com"} {
		bad := a
		bad.RushURL = wrong
		require.Contains(t, wrong, bad.Check().Error(), "--rush-url must")
	}
	for _, wrong := range []string{"/orders", "https://shop.example.com/orders?no=7", "http://shop.example.com/orders", "ftp://shop.example.com", "https://"} {
		bad := a
		bad.OrderURL = wrong
		require.Contains(t, wrong, bad.Check().Error(), "--order-url must")
	}
	rt, _ := newRouter(t, httpx.Options{RushURL: a.RushURL})
	rt.Mux.Get("/", func(http.ResponseWriter, *http.Request) {})
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	require.Equal(t, "what other sites learn of the page", w.Header().Get("Referrer-Policy"), "strict-origin")
	require.Contains(t, "the pages' policy", w.Header().Get("Content-Security-Policy"), "; connect-src 'self' https://rush.example.com")
	ask := func(other httpx.ThirdParty) http.Header {
		w := httptest.NewRecorder()
		rt.AllowThirdParty(other, func(http.ResponseWriter, *http.Request) {})(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		return w.Header()
	}
	h := ask(httpx.ThirdParty{Scripts: "https://a.example https://b.example", Calls: "https://c.example"})
	require.Contains(t, "the policy of a page with a script of others", h.Get("Content-Security-Policy"),
		"style-src 'self' 'unsafe-inline' https://a.example https://b.example; script-src 'self' https://a.example https://b.example; frame-src 'self' https://a.example https://b.example; ",
		"; connect-src 'self' https://rush.example.com https://a.example https://b.example https://c.example", "default-src 'self'; img-src 'self' https: data:; ", "; base-uri 'none'; object-src 'none'; frame-ancestors 'none'")
	require.Equal(t, "headers for no others", len(ask(httpx.ThirdParty{})), 0)
}
