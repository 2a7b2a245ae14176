package httpx

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// reservedFiles are the descriptors that clients never get: NATS's streams and
	// their consumers some 300, the pools of Postgres and Redis some 200, outgoing
	// requests and payment providers some 200, and the ops listener opsConnections.
	// A process that may open few files reserves a quarter of them.
	reservedFiles = 1024
	// mostFiles bounds an unlimited RLIMIT_NOFILE.
	mostFiles = 1 << 20
	// commonConnections are as many as memory allows on a small machine: an idle one
	// takes some 10 KiB, a WebSocket 17.
	commonConnections = 65_536
	// commonSockets are the WebSockets of an instance unless the operator sets
	// another number.
	commonSockets = 30_000
	// connectionsOfShopper is how many connections a browser opens to one host.
	connectionsOfShopper = 6
	// opsConnections suffice for probes, a scraper and some profiles.
	opsConnections = 64
)

// OpenFiles is how many descriptors this process may have. The Go runtime has
// already raised the soft limit to the hard one.
func OpenFiles() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 1024 // the smallest default in common use
	}
	return int(min(l.Cur, mostFiles)) //nolint:gosec // bounded
}

// Connections divides the descriptors of a process that may open files of them and
// is to hold a number of WebSockets, set by a flag, 0 for as many as usual. It
// returns the bounds of the public listener and the number of WebSockets, or a
// sentence for the operator if they do not fit.
func (s Settings) Connections(files int, flag string, sockets int) (c Connections, mostSockets int, err error) {
	free := files - min(reservedFiles, files/4)
	c.Total = min(free, cmp.Or(s.MaxConnections, max(commonConnections, 2*sockets)))
	if c.Total < s.MaxConnections {
		return c, 0, fmt.Errorf("--max-connections=%d needs %d open files, and this process may open %d: %s or lower it to %d",
			s.MaxConnections, s.MaxConnections+reservedFiles, files, raiseFiles, free)
	}
	// A quarter remains for requests.
	mostSockets = max(1, c.Total*3/4)
	switch {
	case sockets > mostSockets && s.MaxConnections > 0:
		return c, 0, fmt.Errorf("%s=%d must be at most three quarters of --max-connections=%d, because requests need connections too: lower it to %d",
			flag, sockets, s.MaxConnections, mostSockets)
	case sockets > mostSockets:
		return c, 0, fmt.Errorf("%s=%d needs %d open files, and this process may open %d: %s or lower it to %d",
			flag, sockets, sockets*4/3+1+reservedFiles, files, raiseFiles, mostSockets)
	case sockets == 0:
		sockets = min(commonSockets, mostSockets)
	}
	// No address gets more than a quarter, however few there are.
	c.OfAddress = min(s.ShoppersPerAddress*connectionsOfShopper, max(1, c.Total/4))
	c.Proxies, _ = s.Proxies() // Check reports the error
	return c, sockets, nil
}

const raiseFiles = "raise the limit (ulimit -n, LimitNOFILE= in a systemd unit, ulimits in compose.yaml)"

// OpsConnections are the bounds of the ops listener: no client of the public one can
// take its connections.
func OpsConnections() Connections { return Connections{Total: opsConnections} }
