package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// hub is a WebSocket server that greets and then writes what it is told to all.
type hub struct {
	mu    sync.Mutex
	conns []*websocket.Conn
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	conn.CloseRead(context.Background())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, conn)
	_ = conn.Write(r.Context(), websocket.MessageText, []byte("hello"))
}

func (h *hub) each(t *testing.T, do func(ctx context.Context, conn *websocket.Conn) error) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for _, conn := range h.conns {
		if err := do(ctx, conn); err != nil {
			t.Error(err)
		}
	}
}

func TestSocketsCountTextsAndAnswerPings(t *testing.T) {
	t.Parallel()
	h := &hub{}
	srv := httptest.NewServer(h)
	defer srv.Close()
	const n = 5
	s, err := OpenSockets(t.Context(), strings.TrimPrefix(srv.URL, "http://"), "/", n, func(int) (string, error) { return "token", nil })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// Lengths on both sides of the frame's two forms, and pings in between: the
	// library's Ping returns when the pong is there.
	for _, length := range []int{0, 125, 126, 2000} {
		here := s.Expect(n)
		h.each(t, func(ctx context.Context, conn *websocket.Conn) error {
			return conn.Write(ctx, websocket.MessageText, []byte(strings.Repeat("x", length)))
		})
		if err := s.Await(t.Context(), here); err != nil {
			t.Fatalf("texts of %d bytes: %v", length, err)
		}
		h.each(t, func(ctx context.Context, conn *websocket.Conn) error { return conn.Ping(ctx) })
	}
	here := s.Expect(n)
	h.each(t, func(_ context.Context, conn *websocket.Conn) error { return conn.CloseNow() })
	if err := s.Await(t.Context(), here); err == nil {
		t.Error("the end of a socket was not told")
	}
}

func TestAnUpgradeThatIsRefusedIsAnError(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	_, err := OpenSockets(t.Context(), strings.TrimPrefix(srv.URL, "http://"), "/", 2, func(int) (string, error) { return "token", nil })
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v, want one that names the status", err)
	}
}
