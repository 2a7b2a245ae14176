package httpx

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddr is the address that a request came from; the zero Addr outside a
// request. Behind trusted proxies it is the address that they saw.
func ClientAddr(ctx context.Context) netip.Addr { return fromContext(ctx).client }

// Headers in which a proxy names its client.
const (
	// XForwardedFor is the header that nearly every proxy writes.
	XForwardedFor = "X-Forwarded-For"
	// Forwarded is the standard header (RFC 7239).
	Forwarded = "Forwarded"
)

// Proxies are the trusted proxies, which may state a client's address. The zero
// value trusts none: the connection's peer is the client.
type Proxies struct {
	trusted []netip.Prefix
	header  string
}

// ParseProxies parses networks such as 10.0.0.0/8, or single addresses, and the one
// header that they write: XForwardedFor or Forwarded. Only one, because a proxy
// passes on the other as the client wrote it.
func ParseProxies(networks []string, header string) (Proxies, error) {
	if header != XForwardedFor && header != Forwarded {
		return Proxies{}, fmt.Errorf("must be %s or %s, not %q", XForwardedFor, Forwarded, header)
	}
	p := Proxies{header: header}
	for _, n := range networks {
		prefix, err := netip.ParsePrefix(n)
		if err != nil {
			addr, err := netip.ParseAddr(n)
			if err != nil {
				return Proxies{}, fmt.Errorf("must be networks such as 10.0.0.0/8 or addresses such as 10.0.0.7, not %q", n)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		if prefix.Bits() < widest(prefix.Addr()) {
			return Proxies{}, fmt.Errorf("must be the networks of your proxies, at least as narrow as /%d; in %q any client could state any address", widest(prefix.Addr()), n)
		}
		p.trusted = append(p.trusted, prefix.Masked())
	}
	return p, nil
}

// widest is the shortest prefix of a network that belongs to one operator: 10.0.0.0/8
// and fc00::/7 are the largest private ones.
func widest(addr netip.Addr) int {
	if addr.Is4() {
		return 8
	}
	return 7
}

func (p Proxies) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(p.trusted, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// shared reports whether an address is that of many clients: a trusted proxy, or
// this machine with a proxy or a load generator on it.
func (p Proxies) shared(addr netip.Addr) bool {
	return !addr.IsValid() || addr.IsLoopback() || p.trusts(addr)
}

// client returns the address that a request came from. Proxies append to the header,
// so only its right end is trustworthy: it is read from the right, past the
// addresses of trusted proxies, and the first other address is the client. The
// client may have written everything to the left of it. An entry that is not an
// address ends the reading at the last proxy.
func (p Proxies) client(r *http.Request) netip.Addr {
	addr := peerOf(r)
	if len(p.trusted) == 0 || !p.trusts(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values(p.header), ","), ",")
	for _, hop := range slices.Backward(hops) {
		hop = strings.TrimSpace(hop)
		if p.header == Forwarded {
			hop = forwardedFor(hop)
		}
		next, ok := parseHop(hop)
		if !ok {
			return addr
		}
		if addr = next; !p.trusts(addr) {
			return addr
		}
	}
	return addr
}

// forwardedFor returns the for parameter of one element of Forwarded. A quoted
// string with a comma has been cut in two before; no address contains one.
func forwardedFor(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(pair, "=")
		if strings.EqualFold(strings.TrimSpace(name), "for") {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

// parseHop parses an address as proxies write it: with or without a port, IPv6 in
// brackets if there is a port.
func parseHop(hop string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if withPort, err := netip.ParseAddrPort(hop); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}

// peerOf returns the address of the connection's peer.
func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // net/http writes it
	return peer.Addr().Unmap()
}

// Loopback reports whether a URL's host is this machine, so that requests to it need
// no encryption.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}
