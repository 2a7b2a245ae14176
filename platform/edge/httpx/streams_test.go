package httpx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
)

// follow streams events until the client leaves.
func follow(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "data: {}\n\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// TestAttackEventStreams opens twice as many streams as the server may have connections:
// each new client is served, and the streams give way before a shopper's idle connection.
func TestAttackEventStreams(t *testing.T) {
	t.Parallel()
	const most = 20
	g := gatedBy(t, Bounds{}, func(rt *Router) {
		rt.Handle(Events, http.MethodGet, "/live", follow)
		rt.Handle(Static, http.MethodGet, "/", greets)
	}, func(l *connections) { l.bounds.Total = most })
	shopper := dialFrom(t, g.Server, "127.0.0.1", "")
	if err := ask(shopper); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * most {
		stream := dialFrom(t, g.Server, fmt.Sprintf("127.0.1.%d", i), "GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
		if line, err := bufio.NewReader(stream).ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("stream %d: %q, %v", i, line, err)
		}
		client := dialFrom(t, g.Server, "127.0.0.2", "")
		if err := ask(client); err != nil {
			t.Fatalf("a new client beside %d streams: %v", i+1, err)
		}
		_ = client.Close()
	}
	if err := ask(shopper); err != nil {
		t.Errorf("the shopper's connection: %v", err)
	}
}

// TestAttackStreamsOfOneClient: a user, an address and clients without a token have
// bounds below the total.
func TestAttackStreamsOfOneClient(t *testing.T) {
	t.Parallel()
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}) }
	for name, test := range map[string]struct {
		user func(i int) int64
		addr func(i int) netip.Addr
		want int
	}{
		"a user":                 {func(int) int64 { return 7 }, addr, mostStreamsOfUser},
		"users of an address":    {func(i int) int64 { return int64(i + 1) }, func(int) netip.Addr { return addr(1) }, mostStreamsOfAddress},
		"users":                  {func(i int) int64 { return int64(i + 1) }, addr, mostStreams},
		"users behind a proxy":   {func(i int) int64 { return int64(i + 1) }, func(int) netip.Addr { return netip.Addr{} }, mostStreams},
		"clients without tokens": {func(int) int64 { return 0 }, addr, mostPublicStreams},
	} {
		var s streams
		var leave []func()
		for i := range 2 * mostStreams {
			if left, ok := s.enter(test.user(i), test.addr(i)); ok {
				leave = append(leave, left)
			}
		}
		if len(leave) != test.want {
			t.Errorf("%s: %d streams, want %d", name, len(leave), test.want)
		}
		for _, left := range leave {
			left()
		}
		if len(s.open) != 0 {
			t.Errorf("%s: %v are left", name, s.open)
		}
	}
}

// withdrawn revokes every token once it is set; before, revocations cannot be checked.
type withdrawn struct{ atomic.Bool }

func (w *withdrawn) Revoked(context.Context, auth.Principal) (bool, error) {
	if !w.Load() {
		return false, errors.New("not known")
	}
	return true, nil
}
func (*withdrawn) Version() uint64 { return 1 }

// TestAStreamEndsWithItsToken: when it is revoked, and when it expires.
func TestAStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	var ended withdrawn
	var late atomic.Int64
	tokens := auth.NewTokens([]byte(strings.Repeat("k", auth.MinKeyBytes)), func() time.Time { return time.Now().Add(time.Duration(late.Load())) }, auth.RevokedBy(&ended))
	g := newGate(prometheus.NewRegistry(), nil)
	g.tokens = tokens
	for name, end := range map[string]func(){
		"revoked": func() { ended.Store(true) },
		"expired": func() { late.Store(int64(time.Hour)) },
	} {
		ended.Store(false)
		late.Store(0)
		began, gone := make(chan struct{}), make(chan struct{})
		r := httptest.NewRequestWithContext(auth.Into(t.Context(), auth.Principal{UserID: 7, ExpiresAt: time.Now().Add(time.Minute)}), http.MethodGet, "/live", nil)
		go func() {
			defer close(gone)
			g.stream(httptest.NewRecorder(), r, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(began)
				<-r.Context().Done()
			}), true)
		}()
		<-began
		end()
		select {
		case <-gone:
		case <-time.After(30 * time.Second):
			t.Errorf("%s: the stream goes on", name)
		}
	}
}
