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
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/require"
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
	require.NoError(t, ask(shopper))
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
	require.NoError(t, ask(shopper)) // the shopper's connection stays
}

// TestAttackStreamsOfOneClient: a user, an address and routes without a token have bounds
// below the total. A user's oldest stream gives way to the same user's new one; others
// are refused.
func TestAttackStreamsOfOneClient(t *testing.T) {
	t.Parallel()
	network := func(i int) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), 32) }
	for name, test := range map[string]struct {
		of    func(i int) stream
		want  int
		ended int
	}{
		"a user":                 {func(i int) stream { return stream{user: 7, network: network(i)} }, mostStreamsOfUser, 2*mostStreams - mostStreamsOfUser},
		"users of an address":    {func(i int) stream { return stream{user: int64(i + 1), network: network(1)} }, mostStreamsOfAddress, 0},
		"users":                  {func(i int) stream { return stream{user: int64(i + 1), network: network(i)} }, mostStreams, 0},
		"users behind a proxy":   {func(i int) stream { return stream{user: int64(i + 1)} }, mostStreams, 0},
		"a public page":          {func(i int) stream { return stream{public: true, network: network(i)} }, mostPublicStreams, 0},
		"users of a public page": {func(i int) stream { return stream{user: int64(i + 1), public: true} }, mostPublicStreams, 0},
		"five users of an address": {
			func(i int) stream { return stream{user: int64(i%5 + 1), network: network(1)} }, mostStreamsOfAddress, 2*mostStreams - mostStreamsOfAddress,
		},
	} {
		var s streams
		var all []*stream
		ended := 0
		for i := range 2 * mostStreams {
			one := test.of(i)
			one.end = func() {
				if ended++; s.open[0] != &one && test.of(0).user == test.of(1).user {
					t.Errorf("%s: stream %d is not the oldest", name, i)
				}
			}
			s.enter(&one)
			all = append(all, &one)
		}
		if len(s.open) != test.want || ended != test.ended {
			t.Errorf("%s: %d streams, want %d; %d ended, want %d", name, len(s.open), test.want, ended, test.ended)
		}
		for _, one := range all { // also those that were refused or ended
			s.leave(one)
		}
		require.Equal(t, name+": streams that are left", len(s.open), 0)
	}
}

// TestAUsersNinthStreamEndsTheFirst, also if its client has vanished, and tells it not to
// connect again.
func TestAUsersNinthStreamEndsTheFirst(t *testing.T) {
	t.Parallel()
	g := gatedBy(t, Bounds{}, func(rt *Router) {
		rt.Handle(Events, http.MethodGet, "/live", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			follow(w, r)
		})
	})
	token := httpxtest.Token(t, g.tokens, auth.Principal{UserID: 7, Role: auth.Viewer})
	var first *bufio.Reader
	for i := range mostStreamsOfUser + 1 {
		stream := bufio.NewReader(dialFrom(t, g.Server, "127.0.0.1", "GET /live HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\n\r\n"))
		if line, err := stream.ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
			t.Fatalf("stream %d: %q, %v", i, line, err)
		}
		if first == nil {
			first = stream
		}
	}
	if rest, err := io.ReadAll(first); err != nil || !strings.HasSuffix(string(rest), displacedEvent) {
		t.Errorf("the first stream ends with %q, %v", rest, err)
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
			}), false, true)
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
