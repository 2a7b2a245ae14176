package ratelimit_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"stampede/platform/edge/ratelimit"
	"stampede/platform/workshop/require"
)

func TestNetworks(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string][]string{
		"203.0.113.9":         {"203.0.113.9/32"},
		"::ffff:203.0.113.9":  {"203.0.113.9/32"},
		"2001:db8:1:2ff::1%x": {"2001:db8:1:2ff::/64", "2001:db8:1:200::/56", "2001:db8:1::/48"},
	} {
		var got []string
		for _, n := range ratelimit.Networks(netip.MustParseAddr(addr)) {
			got = append(got, n.String())
		}
		require.Equal(t, addr, got, want)
	}
	if got := ratelimit.Networks(netip.Addr{}); got != nil {
		t.Errorf("no address: %v", got)
	}
}

func at(addr string) ratelimit.Origin { return ratelimit.Origin{Address: netip.MustParseAddr(addr)} }

func TestCrowds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const budget, thing = 50, 42
		c := ratelimit.NewCrowds(budget, time.Minute)
		carrier := at("203.0.113.9")
		levels := map[int]int64{}
		for user := range int64(200) {
			level := c.Join(thing, user+1, carrier)
			levels[level]++
			if again := c.Join(thing, user+1, carrier); again != level {
				t.Fatalf("user %d counts twice: level %d, then %d", user+1, level, again)
			}
		}
		for user := range int64(300) {
			levels[c.Join(thing, 301+user, carrier)]++
		}
		require.Equal(t, "users by level", levels, map[int]int64{0: 50, 1: 50, 2: 100, 3: 200, 4: 100})
		for name, level := range map[string]int{
			"another address": c.Join(thing, 1, at("203.0.113.10")),
			"another thing":   c.Join(thing+1, 1, carrier),
			"no origin":       c.Join(thing, 1, ratelimit.Origin{}),
		} {
			require.Equal(t, "the level of "+name, level, 0)
		}
		<-time.After(4 * time.Minute) // a group leaves the highest level at once, and falls by its budget a minute
		require.Equal(t, "the level four minutes later", c.Join(thing, 601, carrier), 3)
		<-time.After(4 * time.Minute)
		require.Equal(t, "the level eight minutes later", c.Join(thing, 602, carrier), 0)

		// A holder of a /48 who uses a /64 for each user is one holder.
		spread := map[int]int{}
		for user := range int64(1800) {
			addr := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 1, byte(user), byte(user >> 8), 15: 1})
			spread[c.Join(thing, 1000+user, ratelimit.Origin{Address: addr})]++
		}
		if spread[0] != 4*budget || spread[4] == 0 {
			t.Errorf("a /48 has levels %v, want %d users without", spread, 4*budget)
		}

		// So is the holder of a device who uses an address for each user.
		for user, want := range []int{0, 0, 0, 1, 1, 1, 2} {
			from := ratelimit.Origin{Address: netip.AddrFrom4([4]byte{198, 51, 100, byte(user)}), Device: [16]byte{1}}
			if got := c.Join(thing, 9000+int64(user), from); got != want {
				t.Errorf("user %d of a device: level %d, want %d", user+1, got, want)
			}
		}
	})
}
