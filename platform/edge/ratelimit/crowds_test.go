package ratelimit_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"stampede/platform/edge/ratelimit"
)

func TestNetworks(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string][]string{
		"203.0.113.9":         {"203.0.113.9/32"},
		"::ffff:203.0.113.9":  {"203.0.113.9/32"},
		"2001:db8:1:2ff::1%x": {"2001:db8:1:2ff::/64", "2001:db8:1:200::/56", "2001:db8:1::/48"},
	} {
		got := ratelimit.Networks(netip.MustParseAddr(addr))
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", addr, got, want)
			continue
		}
		for i, n := range got {
			if n.String() != want[i] {
				t.Errorf("%s: %v, want %v", addr, got, want)
			}
		}
	}
	if got := ratelimit.Networks(netip.Addr{}); got != nil {
		t.Errorf("no address: %v", got)
	}
}

func TestCrowds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const budget, thing = 10, 42
		c := ratelimit.NewCrowds(budget, time.Minute)
		carrier := netip.MustParseAddr("203.0.113.9")
		levels := map[int]int64{}
		for user := range int64(200) {
			level := c.Join(thing, user+1, carrier)
			levels[level]++
			if again := c.Join(thing, user+1, carrier); again != level {
				t.Fatalf("user %d counts twice: level %d, then %d", user+1, level, again)
			}
		}
		if want := map[int]int64{0: 10, 1: 10, 2: 20, 3: 40, 4: 120}; len(levels) != len(want) || levels[0] != 10 || levels[1] != 10 || levels[2] != 20 || levels[3] != 40 || levels[4] != 120 {
			t.Errorf("users by level: %v, want %v", levels, want)
		}
		for name, level := range map[string]int{
			"another address": c.Join(thing, 1, netip.MustParseAddr("203.0.113.10")),
			"another thing":   c.Join(thing+1, 1, carrier),
			"no address":      c.Join(thing, 1, netip.Addr{}),
		} {
			if level != 0 {
				t.Errorf("%s: level %d", name, level)
			}
		}
		<-time.After(4 * time.Minute) // a group leaves the highest level at once, and falls by its budget a minute
		if got := c.Join(thing, 201, carrier); got != 3 {
			t.Errorf("four minutes later: level %d, want 3", got)
		}
		<-time.After(4 * time.Minute)
		if got := c.Join(thing, 202, carrier); got != 0 {
			t.Errorf("eight minutes later: level %d, want 0", got)
		}

		// A holder of a /48 who uses a /64 for each user is one holder.
		spread := map[int]int{}
		for user := range int64(400) {
			addr := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 1, byte(user), byte(user >> 8), 15: 1})
			spread[c.Join(thing, 1000+user, addr)]++
		}
		if spread[0] != 4*budget || spread[4] == 0 {
			t.Errorf("a /48 has levels %v, want %d users without", spread, 4*budget)
		}
	})
}

func BenchmarkCrowds(b *testing.B) {
	c := ratelimit.NewCrowds(50, time.Minute)
	carrier := netip.MustParseAddr("2001:db8:1:2ff::1")
	b.ReportAllocs()
	for user := int64(1); b.Loop(); user++ {
		c.Join(42, user, carrier)
	}
}
