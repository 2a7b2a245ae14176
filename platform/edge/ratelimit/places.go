package ratelimit

import (
	"net/netip"
	"sync"
)

// Places bounds what clients have at the same time, of one address and in all. The
// zero value is ready. Safe for concurrent use.
type Places struct {
	mu  sync.Mutex
	all int
	of  map[netip.Prefix]int // by Network
}

// Enter takes a place unless all are taken, or ofAddress by this client's address; 0
// is no bound. Leave gives it back.
func (p *Places) Enter(client netip.Addr, ofAddress, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	network := Network(client)
	if most > 0 && p.all >= most || ofAddress > 0 && p.of[network] >= ofAddress {
		return false
	}
	if p.of == nil {
		p.of = map[netip.Prefix]int{}
	}
	p.all++
	p.of[network]++
	return true
}

// Leave gives a place back.
func (p *Places) Leave(client netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	network := Network(client)
	p.all--
	if p.of[network]--; p.of[network] == 0 {
		delete(p.of, network)
	}
}

// Taken is the number of taken places.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}
