package httpx

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// directRouter returns a router whose direct route is /rush/, beside GET /, GET /slow, POST
// /body, which answers with the body, and POST /unread, which does not read it.
func directRouter(h DirectHandler) *Router {
	rt := NewRouter(auth.NewTokens([]byte("6f1c0a92d8e54b7391aa02c4f1e0d9b8"), time.Now), slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	rt.Mux.Get("/", greets)
	rt.Bare.Get("/slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(slowly):
			greets(w, r)
		}
	})
	rt.Bare.Post("/unread", greets)
	rt.Mux.Post("/body", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	rt.Direct("/rush/", h)
	return rt
}

const slowly = 3 * time.Second

// echo answers with what it knows of a request.
func echo(_ context.Context, req *DirectRequest, reply *DirectAnswer) {
	reply.Status = http.StatusAccepted
	if strings.HasPrefix(req.Last, "no") {
		reply.Status, reply.RetryAfter = http.StatusConflict, 7
	}
	reply.Body = fmt.Appendf(reply.Body, "[%q,%q]", req.Last, req.AcceptLanguage)
}

const knocks = "POST /rush/%s HTTP/1.1\r\nHost: x\r\nAccept-Language: zh\r\nX-Request-Id: abc\r\nContent-Length: 0\r\n\r\n"

// answersOn reads n answers from a connection, each as status, header and body.
func answersOn(t *testing.T, c net.Conn, n int) (all []string) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	in := bufio.NewReader(c)
	for range n {
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }() //nolint:gocritic // a few
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		var header strings.Builder
		resp.Header.Del("Date")
		require.NoError(t, resp.Header.Write(&header))
		all = append(all, resp.Status+"\r\n"+header.String()+string(body))
	}
	return all
}

// A request gets the same answer with net/http, to which a TE header sends it, and
// without it.
func TestPlainAnswersAreNetHTTPs(t *testing.T) {
	t.Parallel()
	s := serving(t, Connections{}, directRouter(echo))
	for _, last := range []string{"yes-1_A", "no"} {
		plain := fmt.Sprintf(knocks, last)
		byNetHTTP := strings.Replace(plain, "Host:", "TE: trailers\r\nHost:", 1)
		got := answersOn(t, dialFrom(t, s, "127.0.0.1", plain+byNetHTTP+plain), 3)
		require.Equal(t, last, got[0], got[1])
		require.Equal(t, last, got[2], got[1])
		require.Contains(t, last, got[0], "Content-Security-Policy", "X-Request-Id: abc", `"zh"`)
	}
}

// Requests of every kind follow each other on one connection, in any pieces.
func TestPlainAndOtherRequestsShareAConnection(t *testing.T) {
	t.Parallel()
	s := serving(t, Connections{}, directRouter(echo))
	rush := fmt.Sprintf(knocks, "a")
	stream := rush + rush + getRoot + rush + "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: " + fmt.Sprint(len(rush)) + "\r\n\r\n" + rush + rush + getRoot + getRoot + rush
	want := []string{"202", "202", "200", "202", "200", "202", "200", "200", "202"}
	for piece := 1; piece <= len(stream); piece = piece*3 + 1 {
		c := dialFrom(t, s, "127.0.0.1", "")
		go func() {
			for part := range slices.Chunk([]byte(stream), piece) {
				_, _ = c.Write(part)
			}
		}()
		for i, got := range answersOn(t, c, len(want)) {
			if !strings.HasPrefix(got, want[i]) || i == 4 && !strings.HasSuffix(got, rush) {
				t.Errorf("pieces of %d, answer %d: %s", piece, i, got)
			}
		}
	}
}

// Bytes that look like a plain request, but belong to a request that net/http has begun
// to read, are that request's.
func TestAttackPlainRequestInsideAnother(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 8)
	s := serving(t, Connections{}, directRouter(func(ctx context.Context, req *DirectRequest, reply *DirectAnswer) {
		asked <- struct{}{}
		echo(ctx, req, reply)
	}))
	rush := fmt.Sprintf(knocks, "a")
	for name, before := range map[string]string{
		"header": "GET / HTTP/1.1\r\nHost: x\r\n",
		"value":  "GET / HTTP/1.1\r\nHost: x\r\nA: ",
		"method": "GET / HTTP/1.1\r\nHost: x\r\n\r\nGE",
		"body":   "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n",
		"chunk":  "POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n",
		// Behind another request in net/http's buffer, which is empty again at their ends.
		"line behind another":   getRoot + "GET / HTTP/1.1\r\n",
		"header behind another": getRoot + "GET / HTTP/1.1\r\nHost: x\r\n",
		"body behind another":   getRoot + "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n",
		"chunk behind another":  getRoot + "POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n",
	} {
		c := dialFrom(t, s, "127.0.0.1", before)
		if name == "method" || strings.HasSuffix(name, "another") {
			require.Equal(t, "before it", len(answersOn(t, c, 1)), 1)
		}
		synced := dialFrom(t, s, "127.0.0.1", "")
		require.NoError(t, ask(synced)) // the server has had time to read what was sent before
		_, err := io.WriteString(c, rush)
		require.NoError(t, err)
		require.NoError(t, ask(synced))
		_ = c.Close()
		if len(asked) > 0 {
			t.Errorf("%s: the bytes were taken for a rush", name)
		}
	}
}

// Where plain requests came first on a connection, the first other request has its full
// time, and no more.
func TestTimesOfARequestAfterPlainOnes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sends string
		after time.Duration // the connection is closed
		says  string        // the last answer
	}{
		"nothing":        {"", idleTimeout, ""},
		"half a header":  {"GET / HTTP/1.1\r\n", readHeaderTimeout, ""},
		"half a body":    {"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", bodyTimeout, "abc"},
		"body not read":  {"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", readTimeout, ""},
		"half a rush":    {"POST /rush/", readHeaderTimeout, ""},
		"a slow answer":  {"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n", slowly + idleTimeout, "hello"},
		"a whole answer": {getRoot, idleTimeout, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newConnections(Connections{}, slog.New(slog.DiscardHandler))
				rt := directRouter(echo)
				l.direct = &rt.direct
				client, server := net.Pipe()
				srv := &http.Server{
					Handler: rt, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, ConnState: l.track,
				}
				accepted := make(chan net.Conn, 1)
				accepted <- server
				pipe := &pipeListener{accepted: accepted, closed: make(chan struct{})}
				go func() { _ = srv.Serve(limited{pipe, l}) }()
				defer func() { _ = srv.Close() }()
				for i := range 5 { // long after net/http's own deadlines for a first request
					<-time.After(time.Duration(min(i, 1)) * (idleTimeout - renewEvery - time.Second))
					_, err := fmt.Fprintf(client, knocks, "a")
					require.NoError(t, err)
					answersOn(t, client, 1)
				}
				began := time.Now()
				_, err := io.WriteString(client, test.sends)
				require.NoError(t, err)
				got, err := io.ReadAll(client)
				require.NoError(t, err)
				require.Contains(t, "the last answer", string(got), test.says)
				require.Equal(t, "closed after", time.Since(began).Round(time.Second), test.after)
			})
		})
	}
}

type pipeListener struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// A plain request that is being answered when the server stops gets its answer, and the
// stop waits for it.
func TestShutdownWaitsForPlainAnswers(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	s := serving(t, Connections{}, directRouter(func(ctx context.Context, req *DirectRequest, reply *DirectAnswer) {
		entered <- struct{}{}
		<-release
		echo(ctx, req, reply)
	}))
	c := dialFrom(t, s, "127.0.0.1", "")
	require.NoError(t, ask(c)) // net/http closes idle connections at once, not new ones
	for tries := 0; ; tries++ {
		_, err := fmt.Fprintf(c, knocks, "a")
		require.NoError(t, err)
		<-entered
		if s.conns.answering() {
			break
		}
		require.Equal(t, "no plain request in a hundred", tries < 100, true)
		release <- struct{}{} // it came so early that net/http has it
		answersOn(t, c, 1)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	pgtest.Eventually(t, 30*time.Second, s.conns.draining.Load, "the server stops")
	require.Equal(t, "answering", s.conns.answering(), true)
	select {
	case err := <-stopped:
		t.Fatalf("stopped before the answer: %v", err)
	case release <- struct{}{}:
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	_ = resp.Body.Close()
	require.Equal(t, "status", resp.StatusCode, http.StatusAccepted)
	require.Equal(t, "close", resp.Close, true)
	require.NoError(t, <-stopped)
	require.Equal(t, "open", s.conns.open(), 0)
}

func TestPlainHandlerPanics(t *testing.T) {
	t.Parallel()
	s := serving(t, Connections{}, directRouter(func(context.Context, *DirectRequest, *DirectAnswer) { panic("a mistake") }))
	_, err := io.ReadAll(dialFrom(t, s, "127.0.0.1", fmt.Sprintf(knocks, "a")))
	require.NoError(t, err)
	pgtest.Eventually(t, 30*time.Second, func() bool { return s.conns.open() == 0 }, "the connection is closed")
}

// Connections that only had plain requests do not hold up a shutdown, although net/http
// regards them as new.
func TestShutdownClosesPlainConnections(t *testing.T) {
	t.Parallel()
	s := serving(t, Connections{}, directRouter(echo))
	answersOn(t, dialFrom(t, s, "127.0.0.1", fmt.Sprintf(knocks, "a")), 1)
	began := time.Now()
	require.NoError(t, s.Shutdown(t.Context()))
	if took := time.Since(began); took > 3*time.Second { // net/http waits for 5 s
		t.Errorf("took %s", took)
	}
}

// The handler learns that a client has left, by closing or by resetting.
func TestPlainClientLeaves(t *testing.T) {
	t.Parallel()
	entered, done := make(chan struct{}), make(chan struct{})
	var s *Server
	s = serving(t, Connections{}, directRouter(func(_ context.Context, req *DirectRequest, reply *DirectAnswer) {
		reply.Status = http.StatusAccepted
		defer close(done)
		if req.Last == "stays" {
			stays := false
			s.conns.mu.Lock()                    // net/http's own deadline for a first request has passed
			for c := range s.conns.all.members { // those that have left may not be unregistered yet
				if c.phase.Load() == answering {
					_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
					stays = stays || !gone(c.Conn)
				}
			}
			s.conns.mu.Unlock()
			if !stays {
				t.Error("the client that waits counts as left")
			}
			return
		}
		entered <- struct{}{}
		pgtest.Eventually(t, 30*time.Second, req.Left, "the client has left")
	}))
	for _, reset := range []bool{false, true} {
		done = make(chan struct{})
		c := dialFrom(t, s, "127.0.0.1", fmt.Sprintf(knocks, "a"))
		<-entered
		if reset {
			require.NoError(t, c.(*net.TCPConn).SetLinger(0)) //nolint:errcheck // Dial made it
		}
		require.NoError(t, c.Close())
		<-done
	}
	done = make(chan struct{})
	dialFrom(t, s, "127.0.0.1", fmt.Sprintf(knocks, "stays"))
	<-done
}

// TestAttackIdlePlainConnectionsGiveWay: connections that have sent plain requests are
// idle afterwards, and busy while they are answered.
func TestAttackIdlePlainConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	const most = 4
	entered, release := make(chan struct{}), make(chan struct{})
	s := serving(t, Connections{Total: most}, directRouter(func(ctx context.Context, req *DirectRequest, reply *DirectAnswer) {
		if req.Last == "slow" {
			entered <- struct{}{}
			<-release
		}
		echo(ctx, req, reply)
	}))
	slow := dialFrom(t, s, "127.0.0.1", fmt.Sprintf(knocks+knocks, "a", "slow"))
	<-entered
	for range 5 * most {
		answersOn(t, dialFrom(t, s, "127.0.0.1", fmt.Sprintf(knocks, "a")), 1)
		if n := s.conns.open(); n > most {
			t.Fatalf("%d connections are open, at most %d may be", n, most)
		}
	}
	close(release)
	require.Contains(t, "the slow one", answersOn(t, slow, 2)[1], "202 Accepted")
}

func TestPlainAnswersAllocateLittle(t *testing.T) {
	rt := directRouter(echo)
	l := newConnections(Connections{}, slog.New(slog.DiscardHandler))
	l.direct = &rt.direct
	request := []byte(fmt.Sprintf(knocks, "a"))
	c := l.admit(devNull{})
	n := testing.AllocsPerRun(1000, func() {
		if rest, err := c.answerPlain(request); err != nil || len(rest) > 0 {
			t.Fatal(rest, err)
		}
	})
	if n > 6 { // the handler's own formatting, and texts of the request
		t.Errorf("%v allocations", n)
	}
}

type devNull struct{ net.Conn }

func (devNull) Write(b []byte) (int, error)      { return len(b), nil }
func (devNull) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (devNull) SetReadDeadline(time.Time) error  { return nil }
func (devNull) SetWriteDeadline(time.Time) error { return nil }
