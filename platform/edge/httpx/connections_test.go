package httpx

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// serving starts a server with bounds, whose loopback clients count like others.
func serving(t *testing.T, bounds Connections, h http.Handler, change ...func(*connections)) *Server {
	t.Helper()
	s, err := Listen(t.Context(), "127.0.0.1:0", bounds, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	s.conns.exempt = func(netip.Addr) bool { return false }
	s.conns.patient = 50 * time.Millisecond
	for _, c := range change {
		c(s.conns)
	}
	s.Serve(h)
	t.Cleanup(func() { _ = s.srv.Close(); s.wg.Wait() })
	return s
}

var greets = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

// dialFrom connects from an address of the loopback network and sends some bytes.
func dialFrom(t *testing.T, s *Server, from, bytes string) net.Conn {
	t.Helper()
	return httpxtest.Dial(t, s.Addr(), from, bytes)
}

const getRoot = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// ask sends a request on a connection and returns an error unless it is answered.
func ask(c net.Conn) error {
	if _, err := io.WriteString(c, getRoot); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "hello" {
		return fmt.Errorf("answered %q, %w", body, err)
	}
	return nil
}

// TestAttackIdleConnectionsGiveWay opens many times more connections than the server
// may have: silent ones, ones with half a header, and ones that have been served.
func TestAttackIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	const most = 20
	s := serving(t, Connections{Total: most}, greets)
	for range 3 * most {
		dialFrom(t, s, "127.0.0.1", "")
		dialFrom(t, s, "127.0.0.1", "GET / HTTP/1.1\r\nHost:")
		require.NoError(t, ask(dialFrom(t, s, "127.0.0.1", ""))) // a new client is served
		if n := s.conns.open(); n > most {
			t.Fatalf("%d connections are open, at most %d may be", n, most)
		}
	}
}

// TestAttackStoppedClientsGiveWay: requests whose clients have stopped, while they send a
// body or while they receive the answer, make room for a new client, whether the
// handler reads the body or not.
func TestAttackStoppedClientsGiveWay(t *testing.T) {
	t.Parallel()
	const most = 4
	half := "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
	for name, test := range map[string]struct {
		bytes   string
		handler http.HandlerFunc
	}{
		"body that is read":     {half, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }},
		"body that is not read": {half, greets},
		"chunked body":          {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", greets},
		"long answer to a body": {half, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, writeStep)) }},
		"long poll": {"POST / HTTP/1.1\r\nHost: x\r\n\r\n", func(_ http.ResponseWriter, r *http.Request) {
			defer Idle(r.Context())()
			<-r.Context().Done()
		}},
		"answer": {"POST / HTTP/1.1\r\nHost: x\r\n\r\n", func(w http.ResponseWriter, _ *http.Request) {
			for part, err := make([]byte, 1<<20), error(nil); err == nil; { // more than the kernel buffers, in the end
				_, err = w.Write(part)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entered := make(chan struct{}, most)
			s := serving(t, Connections{Total: most}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					greets(w, r)
					return
				}
				_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // only eviction ends it
				entered <- struct{}{}
				test.handler(w, r)
			}), func(l *connections) { l.patient, l.stall = time.Hour, 10*time.Millisecond })
			for range most {
				dialFrom(t, s, "127.0.0.1", test.bytes)
				<-entered
			}
			pgtest.Eventually(t, 30*time.Second, func() bool { return ask(dialFrom(t, s, "127.0.0.1", "")) == nil }, "a new client is served")
		})
	}
}

// TestAttackOneAddressLeavesRoom: an address at its bound loses its own idle
// connections, and no other's.
func TestAttackOneAddressLeavesRoom(t *testing.T) {
	t.Parallel()
	s := serving(t, Connections{Total: 40, OfAddress: 10}, greets)
	shopper := dialFrom(t, s, "127.0.0.2", "")
	require.NoError(t, ask(shopper))
	for range 60 {
		require.NoError(t, ask(dialFrom(t, s, "127.0.0.3", ""))) // a new connection of the address is served
	}
	if n := s.conns.open(); n > 11 {
		t.Errorf("%d connections are open", n)
	}
	require.NoError(t, ask(shopper)) // the connection of another address stays
}

// TestAttackBusyConnectionsOfOneAddress: requests that do not end cannot be evicted,
// so further connections of their address are refused and others are served.
func TestAttackBusyConnectionsOfOneAddress(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 5), make(chan struct{})
	s := serving(t, Connections{Total: 40, OfAddress: 5}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.RemoteAddr, "127.0.0.3:") {
			entered <- struct{}{}
			<-release
		}
		greets(w, r)
	}))
	t.Cleanup(func() { close(release) })
	for range 5 {
		dialFrom(t, s, "127.0.0.3", getRoot)
	}
	for range 5 {
		<-entered
	}
	if err := ask(dialFrom(t, s, "127.0.0.3", "")); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a sixth connection of the address is open: %v", err)
	}
	require.NoError(t, ask(dialFrom(t, s, "127.0.0.2", ""))) // another address is served
}

// TestAttackStalledReader: a client that receives nothing does not keep its handler.
func TestAttackStalledReader(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := serving(t, Connections{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 1<<20) // more than the kernel buffers, in the end
		for {
			if _, err := w.Write(part); err != nil {
				ended <- err
				return
			}
		}
	}))
	dialFrom(t, s, "127.0.0.1", getRoot)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	case <-time.After(30 * time.Second):
		t.Error("the handler still writes")
	}
}

// TestASlowReaderMakesProgress: the deadline is per step, so an answer may take
// longer than it as a whole.
func TestASlowReaderMakesProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		l := newConnections(Connections{}, slog.New(slog.DiscardHandler))
		const size = 40 * writeStep
		go func() {
			_, _ = l.admit(server).Write(make([]byte, size))
			_ = server.Close()
		}()
		began, read, part := time.Now(), 0, make([]byte, writeStep)
		for {
			n, err := io.ReadFull(client, part)
			if read += n; err != nil {
				break
			}
			<-time.After(writeTimeout / 2)
		}
		if read != size || time.Since(began) < 10*writeTimeout {
			t.Errorf("%d bytes arrived in %s", read, time.Since(began))
		}
	})
}

// remote is a connection of which only the address matters.
type remote struct {
	net.Conn
	addr string
}

func (r remote) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(r.addr), 1))
}
func (r remote) Close() error { return nil }

func TestConnectionsCountNetworks(t *testing.T) {
	t.Parallel()
	proxies, err := ParseProxies([]string{"10.0.0.0/8"}, XForwardedFor)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		addr func(i int) string
		want int
	}{
		"an IPv4 address":           {func(int) string { return "203.0.113.7" }, 8},
		"IPv4 addresses":            {func(i int) string { return fmt.Sprintf("203.0.113.%d", i) }, 100},
		"an IPv4 address over IPv6": {func(int) string { return "::ffff:203.0.113.7" }, 8},
		"addresses of a /64":        {func(i int) string { return fmt.Sprintf("2001:db8::%x", i) }, 4},
		"subnets of a /56":          {func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i) }, 8},
		"sites":                     {func(i int) string { return fmt.Sprintf("2001:db8:0:%x00::1", i) }, 100},
		"a trusted proxy":           {func(int) string { return "10.1.2.3" }, 100},
		"this machine":              {func(int) string { return "127.0.0.1" }, 100},
		"this machine, over IPv6":   {func(int) string { return "::1" }, 100},
	} {
		l := newConnections(Connections{Total: 1000, OfAddress: 8, Proxies: proxies}, slog.New(slog.DiscardHandler))
		var open []*conn
		for i := range 100 {
			c := l.admit(remote{addr: test.addr(i)})
			if c == nil {
				continue
			}
			l.track(c, http.StateActive) // cannot be evicted
			open = append(open, c)
		}
		require.Equal(t, name+": connections", len(open), test.want)
		for _, c := range open {
			_ = c.Close()
			_ = c.Close()
		}
		if len(l.all.members) != 0 || len(l.networks) != 0 {
			t.Errorf("%s: %d connections of %d networks are left", name, len(l.all.members), len(l.networks))
		}
	}
}

// TestAttackDeviceAtItsBoundClosesNoNeighbor: a /64 whose connections are all busy is
// refused another one, and the idle ones of the same /56 stay.
func TestAttackDeviceAtItsBoundClosesNoNeighbor(t *testing.T) {
	t.Parallel()
	l := newConnections(Connections{Total: 1000, OfAddress: 8}, slog.New(slog.DiscardHandler))
	for i := range 4 {
		l.track(l.admit(remote{addr: fmt.Sprintf("2001:db8:0:1::%x", i)}), http.StateActive)
		l.admit(remote{addr: fmt.Sprintf("2001:db8:0:2::%x", i)})
	}
	if c := l.admit(remote{addr: "2001:db8:0:1::9"}); c != nil || l.open() != 8 {
		t.Errorf("a fifth connection of the device was admitted: %v; %d of 8 are open", c != nil, l.open())
	}
	if c := l.admit(remote{addr: "2001:db8:0:3::1"}); c == nil || l.open() != 8 {
		t.Errorf("a neighbor's connection was admitted: %v; %d are open", c != nil, l.open())
	}
}

// TestAttackClosedTwiceCountsOnce: a connection that is closed again after another one of
// its network was admitted takes nothing off that network's count.
func TestAttackClosedTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	l := newConnections(Connections{Total: 1000, OfAddress: 1}, slog.New(slog.DiscardHandler))
	first := l.admit(remote{addr: "203.0.113.7"})
	_ = first.Close()
	l.track(l.admit(remote{addr: "203.0.113.7"}), http.StateActive)
	_ = first.Close()
	if c := l.admit(remote{addr: "203.0.113.7"}); c != nil || l.open() != 1 {
		t.Errorf("a third connection was admitted: %v; %d are open", c != nil, l.open())
	}
}

func TestConnectionsFitTheDescriptors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		files, connections, sockets int
		total, ofAddress, most      int
		said                        string
	}{
		{files: 1 << 20, total: 65_536, ofAddress: 3000, most: 30_000},
		{files: 1 << 20, sockets: 100_000, total: 200_000, ofAddress: 3000, most: 100_000},
		{files: 20_000, total: 18_976, ofAddress: 3000, most: 14_232},
		{files: 1024, total: 768, ofAddress: 192, most: 576},
		{files: 20_000, connections: 100, total: 100, ofAddress: 25, most: 75},
		{files: 4096, sockets: 30_000, said: "--sockets=30000 needs 41025 open files, and this process may open 4096"},
		{files: 4096, connections: 5000, said: "--max-connections=5000 needs 6024 open files"},
		{files: 4096, connections: 1000, sockets: 800, said: "lower it to 750"},
	} {
		set := Settings{ProxyHeader: XForwardedFor, ShoppersPerAddress: 500, MaxConnections: test.connections}
		c, most, err := set.Connections(test.files, "--sockets", test.sockets)
		if test.said != "" {
			if err == nil || !strings.Contains(err.Error(), test.said) {
				t.Errorf("%+v: %v", test, err)
			}
			continue
		}
		if err != nil || c.Total != test.total || c.OfAddress != test.ofAddress || most != test.most {
			t.Errorf("%+v: %+v, %d, %v", test, c, most, err)
		}
	}
}
