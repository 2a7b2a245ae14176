package httpx_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// clientOf returns the address that a handler sees.
func clientOf(t *testing.T, proxies httpx.Proxies, peer string, header http.Header) string {
	t.Helper()
	rt, _ := newRouter(t, httpx.Options{Proxies: proxies})
	seen := "none"
	rt.Mux.Get("/who", func(_ http.ResponseWriter, r *http.Request) { seen = httpx.ClientAddr(r.Context()).String() })
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/who", nil)
	req.RemoteAddr, req.Header = peer, header
	rt.ServeHTTP(httptest.NewRecorder(), req)
	return seen
}

func TestTheClientsAddress(t *testing.T) {
	t.Parallel()
	const ours = "10.0.0.7:4711" // in a trusted network
	for _, c := range []struct {
		name, header, peer string
		values             []string
		want               string
	}{
		{"an untrusted peer's header is ignored", "X-Forwarded-For", "203.0.113.9:80", []string{"198.51.100.1"}, "203.0.113.9"},
		{"a proxy's header is used", "X-Forwarded-For", ours, []string{"198.51.100.1"}, "198.51.100.1"},
		{"an entry by the client is ignored", "X-Forwarded-For", ours, []string{"192.0.2.66, 198.51.100.1"}, "198.51.100.1"},
		{"a header line by the client is ignored", "X-Forwarded-For", ours, []string{"192.0.2.66", "198.51.100.1"}, "198.51.100.1"},
		{"a proxy's address by the client is ignored", "X-Forwarded-For", ours, []string{"10.0.0.1, 198.51.100.1"}, "198.51.100.1"},
		{"two proxies", "X-Forwarded-For", ours, []string{"192.0.2.66, 198.51.100.1, 10.0.0.8"}, "198.51.100.1"},
		{"only proxies", "X-Forwarded-For", ours, []string{"10.0.0.9, 10.0.0.8"}, "10.0.0.9"},
		{"an invalid entry ends the reading", "X-Forwarded-For", ours, []string{"198.51.100.1, unknown, 10.0.0.8"}, "10.0.0.8"},
		{"no header", "X-Forwarded-For", ours, nil, "10.0.0.7"},
		{"with a port", "X-Forwarded-For", ours, []string{"198.51.100.1:52000"}, "198.51.100.1"},
		{"IPv6 through IPv6", "X-Forwarded-For", "[2001:db8:ffff::1]:80", []string{"2001:db8::17"}, "2001:db8::17"},
		{"IPv6 with a port", "X-Forwarded-For", ours, []string{"[2001:db8::17]:443"}, "2001:db8::17"},
		{"IPv4 written as IPv6", "X-Forwarded-For", "[::ffff:10.0.0.7]:80", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"the other header is the client's", "Forwarded", ours, []string{"for=198.51.100.1"}, "10.0.0.7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			proxies, err := httpx.ParseProxies([]string{"10.0.0.0/8", "2001:db8:ffff::1"}, httpx.XForwardedFor)
			require.NoError(t, err)
			require.Equal(t, "the client", clientOf(t, proxies, c.peer, http.Header{c.header: c.values}), c.want)
		})
	}
	require.Equal(t, "without trusted proxies", clientOf(t, httpx.Proxies{}, ours, http.Header{"X-Forwarded-For": {"198.51.100.1"}}), "10.0.0.7")
}

func TestForwarded(t *testing.T) {
	t.Parallel()
	proxies, err := httpx.ParseProxies([]string{"10.0.0.0/8"}, httpx.Forwarded)
	require.NoError(t, err)
	for value, want := range map[string]string{
		`for=198.51.100.1;proto=https;by=10.0.0.7`:     "198.51.100.1",
		`for=192.0.2.66, For="198.51.100.1:4711"`:      "198.51.100.1",
		`proto=http; for="[2001:db8:cafe::17]:4711"`:   "2001:db8:cafe::17",
		`for=192.0.2.66, for=198.51.100.1, for=10.1.1`: "10.0.0.7",
		`for=_hidden`: "10.0.0.7",
		`proto=https`: "10.0.0.7",
	} {
		require.Equal(t, value, clientOf(t, proxies, "10.0.0.7:80", http.Header{"Forwarded": {value}, "X-Forwarded-For": {"192.0.2.1"}}), want)
	}
}

func TestWrongProxiesAreErrors(t *testing.T) {
	t.Parallel()
	for _, networks := range [][]string{{"10.0.0.0/33"}, {"proxy.example"}, {""}} {
		if _, err := httpx.ParseProxies(networks, httpx.XForwardedFor); err == nil {
			t.Errorf("%q was accepted", networks)
		}
	}
	if _, err := httpx.ParseProxies(nil, "X-Real-Ip"); err == nil {
		t.Error("an unknown header was accepted")
	}
}

// Whatever the header contains, an untrusted peer is the client, and behind a proxy
// the client is an address.
func FuzzClientAddress(f *testing.F) {
	f.Add("198.51.100.1, 10.0.0.8", true)
	f.Add(`for="[::1]:1";by=x, for=`, false)
	f.Fuzz(func(t *testing.T, value string, standard bool) {
		header := httpx.XForwardedFor
		if standard {
			header = httpx.Forwarded
		}
		proxies, err := httpx.ParseProxies([]string{"10.0.0.0/8"}, header)
		require.NoError(t, err)
		require.Equal(t, "an untrusted peer", clientOf(t, proxies, "203.0.113.9:80", http.Header{header: {value}}), "203.0.113.9")
		_, err = netip.ParseAddr(clientOf(t, proxies, "10.0.0.7:80", http.Header{header: {value}}))
		require.NoError(t, err)
	})
}
