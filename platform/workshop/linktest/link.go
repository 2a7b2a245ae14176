// Package linktest is a TCP connection to a server that a test can cut, or whose answers
// it can drop, and finds the ports of such servers. Only tests import it.
package linktest

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"stampede/platform/workshop/freeport"
	"stampede/platform/workshop/require"
)

// Link forwards its own address to a server. Safe for concurrent use.
type Link struct {
	listener net.Listener
	mute     atomic.Bool
	ends     sync.WaitGroup

	mu        sync.Mutex
	cut       bool
	conns     map[net.Conn]bool // true: a client's
	forgotten map[net.Conn]bool // clients
	ended     chan struct{}
}

// New forwards to a server until the test ends.
func New(t testing.TB, network, server string) *Link {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &Link{listener: listener, conns: map[net.Conn]bool{}, forgotten: map[net.Conn]bool{}, ended: make(chan struct{})}
	l.ends.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			l.ends.Go(func() { l.carry(client, network, server) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(l.ended)
		l.Cut(true)
		l.ends.Wait()
	})
	return l
}

// Addr is where clients connect.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Cut ends every connection and each that comes, or lets them pass again.
func (l *Link) Cut(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = on
	if on {
		l.closeAll()
	}
}

// Mute drops the server's answers, which never arrive. Since the rest of a truncated one
// would confuse the client, its connection ends when answers pass again.
func (l *Link) Mute(on bool) {
	if !l.mute.Swap(on) || on {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeAll()
}

// Forget ends the clients' side of every connection, as a NAT does that loses its table:
// the server hears nothing of it before the test ends.
func (l *Link) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn, client := range l.conns {
		if client {
			l.forgotten[conn] = true
			_ = conn.Close()
		}
	}
}

// closeAll ends every connection; l.mu must be held.
func (l *Link) closeAll() {
	for conn := range l.conns {
		_ = conn.Close()
	}
}

// carry copies bytes both ways until one side or the link ends.
func (l *Link) carry(client net.Conn, network, addr string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial(network, addr) //nolint:noctx // a server on this machine
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	l.mu.Lock()
	cut := l.cut
	l.conns[client], l.conns[server] = true, false
	l.mu.Unlock()
	if !cut {
		var back sync.WaitGroup
		back.Go(func() { _, _ = io.Copy(answers{l, client}, server); _ = client.Close() })
		_, _ = io.Copy(server, client)
		l.mu.Lock()
		forgotten := l.forgotten[client]
		l.mu.Unlock()
		if forgotten {
			<-l.ended
		}
		_ = server.Close()
		back.Wait()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, client)
	delete(l.conns, server)
}

// answers is a client that receives nothing while the link is mute.
type answers struct {
	link   *Link
	client net.Conn
}

func (a answers) Write(p []byte) (int, error) {
	if a.link.mute.Load() {
		return len(p), nil
	}
	return a.client.Write(p)
}

// FreePorts is freeport.Find for a test.
func FreePorts(t testing.TB, n, from, to int) []int {
	t.Helper()
	ports, err := freeport.Find(t.Context(), n, from, to)
	require.NoError(t, err)
	return ports
}
