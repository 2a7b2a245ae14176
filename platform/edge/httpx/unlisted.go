package httpx

import (
	"cmp"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"stampede/platform/base/network"
)

const (
	// mostUnlisted bounds the peers that are counted. A peer that sends more than
	// this fraction of the forwarded requests stays among them.
	mostUnlisted = 64
	// leastPrivate and leastPublic are the forwarded requests that make a peer a
	// proxy of the shop. A shopper has no private address, but may use a proxy of an
	// office, which forwards too, so a public one must also send one in
	// unlistedShare of all requests.
	leastPrivate  = 20
	leastPublic   = 1000
	unlistedShare = 4
	// recentRequests is how many requests are compared: older ones count half.
	recentRequests = 1 << 14
)

// unlisted counts the requests in which a peer that is not a trusted proxy names its
// client. If it is a proxy of the shop, all shoppers behind it count as one address.
// Safe for concurrent use; the rush does not pass it.
type unlisted struct {
	all atomic.Int64 // requests, forwarded or not

	mu sync.Mutex
	of map[netip.Addr]int64 // Misra and Gries' counters of frequent items
}

// note counts a request.
func (u *unlisted) note(r *http.Request, trusted Proxies) {
	u.all.Add(1)
	if r.Header[XForwardedFor] == nil && r.Header[Forwarded] == nil {
		return
	}
	peer := peerOf(r)
	if !peer.IsValid() || trusted.trusts(peer) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.of[peer]; !known && len(u.of) == mostUnlisted {
		maps.DeleteFunc(u.of, func(addr netip.Addr, n int64) bool {
			u.of[addr] = n - 1
			return n == 1
		})
		return
	}
	if u.of == nil {
		u.of = map[netip.Addr]int64{}
	}
	u.of[peer]++
}

// proxies returns the peers that seem to be proxies of the shop, the busiest first.
func (u *unlisted) proxies() (found []netip.Addr) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.all.Load()
	for peer, n := range u.of {
		if n >= leastPrivate && !network.Public(peer) || n >= leastPublic && n*unlistedShare >= all {
			found = append(found, peer)
		}
	}
	slices.SortFunc(found, func(a, b netip.Addr) int { return cmp.Or(cmp.Compare(u.of[b], u.of[a]), a.Compare(b)) })
	if all > recentRequests {
		u.all.Add(-all / 2)
		maps.DeleteFunc(u.of, func(addr netip.Addr, n int64) bool {
			u.of[addr] = n / 2
			return n == 1
		})
	}
	return found
}

// UnlistedProxies are the peers that seem to be proxies of the shop, because recent
// requests of theirs name other clients, and that Behind does not list; the busiest
// first, at most 64.
func (rt *Router) UnlistedProxies() []netip.Addr { return rt.unlisted.proxies() }
