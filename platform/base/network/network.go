// Package network tells the Internet's addresses from those of the shop's own network.
package network

import (
	"net/netip"
	"slices"
)

// inside are the ranges beyond those that net/netip knows as private in which a shop's
// machines, or the metadata service of its cloud, may answer.
var inside = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"),    // carrier-grade NAT, RFC 6598; Alibaba Cloud's metadata is at 100.100.100.200
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments, RFC 6890
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks, RFC 2544
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved, RFC 1112; used inside some clouds
	netip.MustParsePrefix("64:ff9b::/96"),     // NAT64, RFC 6052: any IPv4 address
	netip.MustParsePrefix("64:ff9b:1::/48"),   // NAT64 of one's own network, RFC 8215
	netip.MustParsePrefix("2002::/16"),        // 6to4, RFC 3056: any IPv4 address
	netip.MustParsePrefix("2001::/32"),        // Teredo, RFC 4380: any IPv4 address
	netip.MustParsePrefix("::/96"),            // any IPv4 address, RFC 4291, 2.5.5.1
	netip.MustParsePrefix("fec0::/10"),        // site-local, RFC 3879; still in use
	netip.MustParsePrefix("0.0.0.0/8"),        // "this network", RFC 791; Linux lets one use it
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's metadata and keys, for its machines only
}

// Public reports whether an address is one of the Internet. An IPv4 address may be
// mapped into IPv6.
func Public(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsGlobalUnicast() && !addr.IsPrivate() &&
		!slices.ContainsFunc(inside, func(p netip.Prefix) bool { return p.Contains(addr) })
}
