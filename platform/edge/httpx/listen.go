package httpx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"stampede/platform/base/app"
)

// Bounds of every connection. A rush request has no body and fits one packet; a
// client slower than these bounds is not a shopper.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	// idleTimeout keeps a shopper's connection warm from the countdown to the rush.
	idleTimeout    = 3 * time.Minute
	maxHeaderBytes = 16 << 10
	// drainPoll is how often a Shutdown looks for plain requests that are being answered,
	// as net/http does for the others.
	drainPoll = 5 * time.Millisecond
)

// Server serves one handler on one or two listeners, which share their bounds.
// Binding and serving are separate steps, so that a taken port is reported before
// anything else starts.
type Server struct {
	srv       *http.Server
	host      string
	listeners []net.Listener
	conns     *connections
	wg        sync.WaitGroup
	log       *slog.Logger
}

// Listen binds addr, host:port. A loopback IPv4 address is bound on [::1] too,
// because browsers resolve localhost to either; without IPv6 that step is skipped.
// The returned error is the operating system's, wrapped.
func Listen(ctx context.Context, addr string, bounds Connections, log *slog.Logger) (*Server, error) {
	var lc net.ListenConfig
	first, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("httpx: listen on %s: %w", addr, err)
	}
	host, _, _ := net.SplitHostPort(addr) // it could be bound
	s := &Server{
		log: log, host: host,
		conns:     newConnections(bounds, log),
		listeners: []net.Listener{first},
		srv: &http.Server{
			ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
			MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
	}
	if bound, ok := first.Addr().(*net.TCPAddr); ok && bound.IP.Equal(net.IPv4(127, 0, 0, 1)) {
		if second, err := lc.Listen(ctx, "tcp6", fmt.Sprintf("[::1]:%d", bound.Port)); err == nil {
			s.listeners = append(s.listeners, second)
		}
	}
	s.srv.ConnState = s.conns.track
	s.srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	return s, nil
}

// Addr is the first bound address.
func (s *Server) Addr() string { return s.listeners[0].Addr().String() }

// Host is the host that Listen was given, which may be a name or empty.
func (s *Server) Host() string { return s.host }

// Serve starts serving h and returns immediately. Call it once.
func (s *Server) Serve(h http.Handler) {
	s.srv.Handler = h
	if rt, ok := h.(*Router); ok && rt.direct.handler != nil {
		s.conns.direct = &rt.direct
	}
	for _, l := range s.listeners {
		s.wg.Go(func() {
			if err := s.srv.Serve(limited{l, s.conns}); err != nil && !errors.Is(err, http.ErrServerClosed) {
				s.log.Error("listener failed", "address", l.Addr().String(), "error", err)
			}
		})
	}
}

// Drain returns a Shutdown that ends after a time, whatever its context.
func (s *Server) Drain(most time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		return s.Shutdown(ctx)
	}
}

// Shutdown stops accepting and waits for requests in flight until ctx ends, then
// closes the remaining connections, which is not an error: net/http regards a
// connection that was opened and never used as busy for 5 s. A server that never
// served releases its addresses.
func (s *Server) Shutdown(ctx context.Context) error {
	s.conns.draining.Store(true)
	s.conns.closeUnknown()
	err := s.srv.Shutdown(ctx)
	for err == nil && s.conns.answering() {
		err = app.Sleep(ctx, drainPoll)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.InfoContext(ctx, "drain timed out, open connections closed")
		err = s.srv.Close()
	}
	for _, l := range s.listeners {
		_ = l.Close() // already closed if it was served
	}
	s.wg.Wait()
	return err
}
