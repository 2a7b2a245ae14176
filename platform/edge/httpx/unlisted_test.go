package httpx

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
)

func TestProxiesMissingFromTheTrustedOnesAreFound(t *testing.T) {
	t.Parallel()
	trusted, err := ParseProxies([]string{"10.1.0.0/16"}, Forwarded)
	if err != nil {
		t.Fatal(err)
	}
	type sends struct {
		peer, header string
		n            int
	}
	for name, c := range map[string]struct {
		sent []sends
		want string
	}{
		"in a private network":         {[]sends{{"10.0.0.7", XForwardedFor, leastPrivate}, {"203.0.113.7", "", 5000}}, "10.0.0.7"},
		"on this machine, in IPv6":     {[]sends{{"::1", Forwarded, leastPrivate}}, "::1"},
		"of a cloud":                   {[]sends{{"100.64.3.4", XForwardedFor, leastPrivate}}, "100.64.3.4"},
		"too few to tell":              {[]sends{{"10.0.0.7", XForwardedFor, leastPrivate - 1}}, ""},
		"a trusted one":                {[]sends{{"10.1.0.7", XForwardedFor, 5000}}, ""},
		"a client without a header":    {[]sends{{"10.0.0.7", "", 5000}}, ""},
		"public, a third of all":       {[]sends{{"203.0.113.7", XForwardedFor, 1500}, {"203.0.113.8", "", 3000}}, "203.0.113.7"},
		"an office, a tenth of all":    {[]sends{{"203.0.113.7", XForwardedFor, 1500}, {"203.0.113.8", "", 13500}}, ""},
		"it was added, or left":        {[]sends{{"203.0.113.7", XForwardedFor, 5000}, {"203.0.113.8", "", 40_000}}, ""},
		"the busiest of those in line": {[]sends{{"10.0.0.7", XForwardedFor, 30}, {"10.0.0.8", XForwardedFor, 40}}, "10.0.0.8 10.0.0.7"},
	} {
		var u unlisted
		for _, s := range c.sent {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(s.peer), 1234).String()
			if s.header != "" {
				r.Header.Set(s.header, "198.51.100.1")
			}
			for range s.n {
				u.note(r, trusted)
			}
		}
		u.proxies() // what has been checked counts less
		got := ""
		for _, addr := range u.proxies() {
			got += " " + addr.String()
		}
		if got != "" {
			got = got[1:]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestAttackMadeUpForwardersAreBounded: addresses that forward once each neither fill
// the memory nor hide a proxy.
func TestAttackMadeUpForwardersAreBounded(t *testing.T) {
	t.Parallel()
	var u unlisted
	proxy, client := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRequest(http.MethodGet, "/", nil)
	proxy.RemoteAddr = "10.0.0.7:1234"
	proxy.Header.Set(XForwardedFor, "198.51.100.1")
	client.Header.Set(XForwardedFor, "198.51.100.1")
	addr := netip.MustParseAddr("203.0.113.1")
	for range 10_000 {
		client.RemoteAddr = netip.AddrPortFrom(addr, 1234).String()
		u.note(client, Proxies{})
		u.note(proxy, Proxies{})
		addr = addr.Next()
	}
	if len(u.of) > mostUnlisted {
		t.Errorf("%d peers are counted", len(u.of))
	}
	if got := u.proxies(); !slices.Equal(got, []netip.Addr{netip.MustParseAddr("10.0.0.7")}) {
		t.Errorf("found %v", got)
	}
}
