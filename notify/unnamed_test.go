package notify

import (
	"fmt"
	"net/netip"
	"testing"

	"stampede/platform/workshop/require"
)

// TestAttackSocketsWithoutTokenOfOneAddress: an address takes a quarter of the places
// at most, an IPv6 /64 too, and gives them back.
func TestAttackSocketsWithoutTokenOfOneAddress(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config) { c.MaxUnnamed = 8 }).service
	for _, test := range []struct {
		addr string
		want bool
	}{
		{"203.0.113.7", true},
		{"203.0.113.7", true},
		{"203.0.113.7", false},
		{"2001:db8::1", true},
		{"2001:db8::2", true},
		{"2001:db8::3", false},
		{"203.0.113.8", true},
		{"127.0.0.1", true},
		{"127.0.0.1", true},
		{"127.0.0.1", true},
		{"203.0.113.9", false},
	} {
		require.Equal(t, test.addr, s.enterUnnamed(netip.MustParseAddr(test.addr)), test.want)
	}
	s.unnamed.Leave(netip.MustParseAddr("203.0.113.7"))
	entered := s.enterUnnamed(netip.MustParseAddr("203.0.113.7"))
	require.Equal(t, "a place that was given back is taken", fmt.Sprint(entered, s.unnamed.Taken()), "true 8")
}
