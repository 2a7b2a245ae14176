package network

import (
	"net/netip"
	"testing"

	"stampede/platform/workshop/require"
)

func TestPublic(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800::1": true, "::ffff:93.184.216.34": true, "100.128.0.1": true,
		"127.0.0.1": false, "10.0.0.1": false, "169.254.169.254": false, "100.100.100.200": false, "198.18.0.1": false, "192.0.0.192": false,
		"0.0.0.0": false, "255.255.255.255": false, "224.0.0.1": false, "::1": false, "::": false, "fd00::1": false, "fe80::1": false,
		"::ffff:192.168.1.1": false, "64:ff9b::a00:1": false, "2002:7f00:1::": false, "240.1.2.3": false, "64:ff9b:1::a00:1": false,
		"0.1.2.3": false, "fec0::1": false, "::7f00:1": false, "2001:0:7f00:1::1": false, "168.63.129.16": false, "fe80::1%eth0": false,
	} {
		require.Equal(t, address, Public(netip.MustParseAddr(address)), want)
	}
}
