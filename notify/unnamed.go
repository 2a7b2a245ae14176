package notify

import (
	"net/netip"
	"sync"

	"stampede/platform/edge/ratelimit"
)

// unnamed counts the connections without a valid token, which no bound per user
// covers. Safe for concurrent use.
type unnamed struct {
	most int64

	mu  sync.Mutex
	all int64
	of  map[string]int64 // by address, IPv6 by /64
}

// enter takes a place; false if there is none for this address. The caller gives it
// back with leave. This machine has no bound of its own: a proxy may run on it.
func (u *unnamed) enter(client netip.Addr) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := ratelimit.AddrKey(client)
	if u.all >= u.most || !client.IsLoopback() && u.of[key] >= max(1, u.most/unnamedOfAddress) {
		return false
	}
	u.all++
	u.of[key]++
	return true
}

func (u *unnamed) leave(client netip.Addr) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := ratelimit.AddrKey(client)
	u.all--
	if u.of[key]--; u.of[key] == 0 {
		delete(u.of, key)
	}
}
