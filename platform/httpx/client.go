package httpx

import (
	"context"
	"net"
	"net/http"
	"net/netip"
)

// ClientAddr is the address that a request came from; the zero Addr outside a
// request.
func ClientAddr(ctx context.Context) netip.Addr { return fromContext(ctx).client }

// clientOf reads the address of the connection's other end.
func clientOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap()
}
