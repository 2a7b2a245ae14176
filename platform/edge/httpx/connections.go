package httpx

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	timerate "golang.org/x/time/rate"

	"stampede/platform/edge/ratelimit"
)

// Connections bound the connections of a Server, WebSockets included; 0 is no limit.
// A connection above a bound takes the place of the one that has been idle for
// longest; if none is idle, it is closed. Idle is a connection on which the server
// waits for its client: for the next request, for the rest of a request's header or
// body, for the client to receive, for stallAfter at least, or for what Idle names.
type Connections struct {
	Total int
	// OfAddress bounds the connections of one IPv4 address, which a mobile carrier
	// shares among its customers, and of one IPv6 /56, the network of a household or
	// an office. A /64, of which each device of a mobile carrier has one, gets half.
	OfAddress int
	// Proxies have no bound of their own: a connection of theirs carries many
	// clients. Neither has this machine.
	Proxies Proxies
	// Metrics receives the listener's metrics; nil if there is none.
	Metrics prometheus.Registerer
}

const (
	// writeTimeout is how long a client may take to receive writeStep, in addition
	// to what the kernel buffers: 1.6 KiB a second is slower than any phone whose
	// shopper still waits.
	writeTimeout = 20 * time.Second
	writeStep    = 32 << 10
	// rearms is how often within writeTimeout a busy connection's deadline is set
	// again, which saves most writes that call.
	rearms = 4
	// stallAfter is longer than a write takes whose client receives.
	stallAfter = time.Second
	// mostEvicted bounds how many connections one search closes. A search looks at
	// every connection, so it closes some in advance.
	mostEvicted = 256
	// searchAgain is the time after a search that found no idle connection in which
	// another one would only cost time.
	searchAgain = 10 * time.Millisecond
	// warnEvery bounds the log lines of a flood.
	warnEvery = time.Minute
)

// connections are a server's open connections. Safe for concurrent use.
type connections struct {
	bounds  Connections
	exempt  func(netip.Addr) bool // from the bound of an address
	patient time.Duration         // writeTimeout except in tests
	stall   time.Duration         // stallAfter except in tests
	began   time.Time
	log     *slog.Logger
	warn    timerate.Sometimes

	direct   *direct     // answered without net/http; nil is none; set before serving
	draining atomic.Bool // the server is stopping: an answer is its connection's last

	mu       sync.Mutex
	all      *group
	networks map[netip.Prefix]*group // without empty ones

	evicted, refused *prometheus.CounterVec // by bound
}

// group is the connections of one bound.
type group struct {
	bound   string       // byTotal or byAddress
	network netip.Prefix // of byAddress
	most    int          // 0 is no bound
	members map[*conn]struct{}
	barren  time.Duration // when a search found no idle member, since connections.began
}

func newGroup(bound string, network netip.Prefix, most int) *group {
	return &group{bound: bound, network: network, most: most, members: map[*conn]struct{}{}, barren: -searchAgain}
}

func newConnections(bounds Connections, log *slog.Logger) *connections {
	l := &connections{
		bounds: bounds, patient: writeTimeout, stall: stallAfter, began: time.Now(), log: log,
		exempt: bounds.Proxies.shared, warn: timerate.Sometimes{Interval: warnEvery},
		all: newGroup(byTotal, netip.Prefix{}, bounds.Total), networks: map[netip.Prefix]*group{},
	}
	auto := promauto.With(bounds.Metrics)
	l.evicted = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_http_connections_evicted_total",
		Help: "Idle connections closed in favor of new ones, by the bound that was reached: total or address.",
	}, []string{"bound"})
	l.refused = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_http_connections_refused_total",
		Help: "Connections closed at once because a bound was reached and none was idle, by bound: total or address.",
	}, []string{"bound"})
	for _, bound := range []string{byTotal, byAddress} { // exported from the first scrape on, so that the first rate is right
		l.evicted.WithLabelValues(bound)
		l.refused.WithLabelValues(bound)
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "stampede_http_connections", Help: "Open connections of shoppers and operators, WebSockets included."},
		func() float64 { return float64(l.open()) })
	return l
}

// The bounds as the metrics' label.
const (
	byTotal   = "total"
	byAddress = "address"
)

func (l *connections) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all.members)
}

// limited is a listener whose connections are bounded.
type limited struct {
	net.Listener
	conns *connections
}

// Accept returns the next connection that may stay.
func (l limited) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err // net/http looks for a temporary net.Error
		}
		if c := l.conns.admit(raw); c != nil {
			return c, nil
		}
		_ = raw.Close()
	}
}

// admit returns the connection under its bounds, or nil if there is no place for it.
func (l *connections) admit(raw net.Conn) *conn {
	c := &conn{Conn: raw, list: l}
	c.armed.Store(int64(-l.patient))
	l.track(c, http.StateNew)
	l.mu.Lock()
	c.groups = append(l.networksOf(addrOf(raw.RemoteAddr())), l.all)
	full, closing, ok := l.seat(c)
	l.mu.Unlock()
	if full != nil {
		l.evicted.WithLabelValues(full.bound).Add(float64(len(closing)))
		if !ok {
			l.refused.WithLabelValues(full.bound).Inc()
		}
		l.warn.Do(func() {
			l.log.Warn("connections reached their bound", "bound", full.bound, "address", raw.RemoteAddr().String(),
				"evicted_idle", len(closing), "admitted", ok)
		})
	}
	for _, old := range closing {
		_ = old.Conn.Close() // its goroutine ends with an error from reading
	}
	if !ok {
		return nil
	}
	return c
}

// networksOf are the groups whose bounds an address counts towards, the smallest network
// first: see Connections.OfAddress. The caller holds l.mu.
func (l *connections) networksOf(addr netip.Addr) (groups []*group) {
	if l.bounds.OfAddress == 0 || l.exempt(addr) {
		return nil
	}
	networks := ratelimit.Networks(addr)
	networks = networks[:min(2, len(networks))]
	for i, network := range networks {
		g := l.networks[network]
		if g == nil {
			most := l.bounds.OfAddress
			if i < len(networks)-1 {
				most = max(1, most/2)
			}
			g = newGroup(byAddress, network, most)
		}
		groups = append(groups, g)
	}
	return groups
}

// seat registers a connection if its bounds allow it, and returns the group that was
// full, if any, with the connections that must be closed. The smallest network comes
// first: a device at its own bound closes no neighbor's connection only to be refused.
// The caller holds l.mu.
func (l *connections) seat(c *conn) (full *group, closing []*conn, ok bool) {
	for _, g := range c.groups {
		old, room := l.makeRoom(g)
		if old != nil || !room {
			full, closing = g, append(closing, old...)
		}
		if !room {
			return full, closing, false
		}
	}
	for _, g := range c.groups {
		g.members[c] = struct{}{}
		if g != l.all {
			l.networks[g.network] = g
		}
	}
	return full, closing, true
}

// makeRoom unregisters the connections of a group that have been idle for longest if
// the group is full, and reports whether there is room then. The caller holds l.mu
// and closes them.
func (l *connections) makeRoom(g *group) (closing []*conn, room bool) {
	if g.most == 0 || len(g.members) < g.most {
		return nil, true
	}
	now := l.now()
	if now-g.barren < searchAgain {
		return nil, false
	}
	type idle struct {
		c     *conn
		since int64
	}
	var all []idle
	for c := range g.members {
		if since := c.idle.Load(); since != busy && since <= int64(now) {
			all = append(all, idle{c, since})
		}
	}
	slices.SortFunc(all, func(a, b idle) int { return cmp.Compare(a.since, b.since) })
	want := len(g.members) - g.most + max(1, min(mostEvicted, g.most/32))
	for _, i := range all {
		if len(closing) == want {
			break
		}
		if i.c.idle.CompareAndSwap(i.since, busy) { // else what it waited for has just arrived
			l.forget(i.c)
			closing = append(closing, i.c)
		}
	}
	if room = len(g.members) < g.most; !room {
		g.barren = now
	}
	return closing, room
}

// forget unregisters a connection; a second call does nothing. The caller holds l.mu.
func (l *connections) forget(c *conn) {
	if _, open := l.all.members[c]; !open {
		return // another group may have its network's place
	}
	for _, g := range c.groups {
		if delete(g.members, c); len(g.members) == 0 && g != l.all {
			delete(l.networks, g.network)
		}
	}
}

func (l *connections) now() time.Duration { return time.Since(l.began) }

// track is http.Server's ConnState.
func (l *connections) track(nc net.Conn, state http.ConnState) {
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	now := int64(l.now())
	switch state {
	case http.StateNew, http.StateIdle:
		c.asked.Store(now)
		c.idle.Store(now)
		c.turn, c.renewed = answered, time.Duration(now)
		if state == http.StateNew {
			c.turn, c.renewed = opening, -renewEvery // net/http gives the first request less time
		}
	case http.StateActive:
		c.turn = begun
		c.asked.Store(now)
		c.idle.Store(busy)
	case http.StateHijacked:
		c.asked.Store(busy)
		c.idle.Store(busy)
	case http.StateClosed:
	}
}

// conn is a bounded connection. Every write has a deadline, which moves with the
// progress, so that a client that receives nothing keeps neither the connection nor
// its goroutine.
type conn struct {
	net.Conn
	list   *connections
	groups []*group // whose bounds it counts towards, the smallest network first
	// Times are since list.began.
	idle  atomic.Int64 // since when the server waits for the client, or from when on if it does not receive; busy if neither
	asked atomic.Int64 // since when it waits for a request, or for the rest of the one that began; busy if it was hijacked
	armed atomic.Int64 // when the write deadline was set

	plainState
}

const busy = -1

// connKey is the key of a request's *conn in its context.
type connKey struct{}

// Idle makes the connection of a request count as idle while its handler waits for
// what need not happen, such as a token or the next event: at a bound it makes room
// for a new client. Call end when the wait is over and the handler goes on.
func Idle(ctx context.Context) (end func()) { return idle(ctx, false) }

// idle is Idle, also for a connection that makes room before all others do.
func idle(ctx context.Context, first bool) (end func()) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return func() {}
	}
	since := int64(0)
	if !first {
		since = int64(c.list.now())
	}
	c.idle.Store(since)
	return func() { c.idle.CompareAndSwap(since, busy) }
}

// read reads. The connection is idle while this waits for a request or for the rest of
// its body, which net/http reads before the answer if the handler does not, but not
// while the answer is made: then net/http reads one byte, to notice a client that leaves.
func (c *conn) read(p []byte) (int, error) {
	if since := c.asked.Load(); since != busy && len(p) > 1 {
		c.idle.Store(since)
		defer c.idle.CompareAndSwap(since, busy)
	}
	return c.Conn.Read(p)
}

// Write writes p in steps with a deadline each.
func (c *conn) Write(p []byte) (n int, err error) {
	before := c.idle.Load()
	for {
		now := c.list.now()
		if now-time.Duration(c.armed.Load()) >= c.list.patient/rearms {
			if err := c.Conn.SetWriteDeadline(time.Now().Add(c.list.patient)); err != nil {
				return n, err
			}
			c.armed.Store(int64(now))
		}
		stalled := int64(now + c.list.stall)
		c.idle.Store(stalled)
		m, err := c.Conn.Write(p[:min(len(p), writeStep)])
		c.idle.CompareAndSwap(stalled, before)
		n, p = n+m, p[m:]
		if err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// SetWriteDeadline does nothing: Write sets the deadlines, and net/http would
// otherwise remove it after each request.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline sets the read deadline.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// CloseWrite is used by net/http to let a client read the answer to a request whose
// body was not read.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// close closes and unregisters the connection.
func (c *conn) close() error {
	c.list.mu.Lock()
	c.list.forget(c)
	c.list.mu.Unlock()
	return c.Conn.Close()
}

// addrOf is the address of a connection's end; the zero Addr unless it is TCP.
func addrOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}
