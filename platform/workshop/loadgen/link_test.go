package loadgen

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"stampede/platform/workshop/require"
)

// answering listens, answers each connection with the texts, one per request,
// and closes it after the last. dials counts connections.
func answering(t *testing.T, texts ...string) (base string, dials func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	count, ended := make(chan int, 1), make(chan struct{})
	count <- 0
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			count <- 1 + <-count
			in := bufio.NewReader(conn)
			for _, text := range texts {
				if _, err := http.ReadRequest(in); err != nil {
					break
				}
				_, _ = io.WriteString(conn, text)
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return "http://" + l.Addr().String(), func() int { n := <-count; count <- n; return n }
}

func TestLinkKeepsItsConnection(t *testing.T) {
	t.Parallel()
	const refused = "HTTP/1.1 503 X\r\nRetry-After: 7\r\nContent-Length: 17\r\n\r\n{\"code\":\"fenced\"}"
	for name, c := range map[string]struct {
		texts []string
		dials int
	}{
		"kept":      {[]string{refused, refused, refused}, 1},
		"announced": {[]string{"HTTP/1.1 503 X\r\nConnection: close\r\nRetry-After: 7\r\nContent-Length: 17\r\n\r\n{\"code\":\"fenced\"}"}, 3},
		"silently":  {[]string{refused}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, dials := answering(t, c.texts...)
			l := newClient(base, 1).newLink(t.Context())
			defer l.close()
			for range 3 {
				a, err := l.do(post, "/", "token", nil)
				if err != nil || a.status != 503 || string(a.code()) != "fenced" || a.retryAfter != 7*time.Second {
					t.Fatalf("%+v, %v", a, err)
				}
			}
			require.Equal(t, "connections for three requests", dials(), c.dials)
		})
	}
}

// TestLinkWithoutAnswer: a server that closes a new connection may have acted,
// so nothing is repeated, and a silent one is left when the link ends.
func TestLinkWithoutAnswer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{"": io.EOF, "nonsense\r\n\r\n": nil, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort": io.ErrUnexpectedEOF} {
		base, dials := answering(t, text)
		l := newClient(base, 1).newLink(t.Context())
		a, err := l.do(get, "/", "", nil)
		l.close()
		if err == nil || want != nil && !errors.Is(err, want) || dials() != 1 {
			t.Errorf("%q: %+v, %v over %d connections", text, a, err, dials())
		}
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts by the kernel, never answers
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	waiting := newClient("http://"+silent.Addr().String(), 1).newLink(ctx)
	defer waiting.close()
	began := time.Now()
	if _, err := waiting.do(get, "/", "", nil); err == nil || time.Since(began) > requestTimeout/2 {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

func TestLinkLeavesASilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		l := newClient("http://shop", 1).newLink(t.Context())
		l.conn = ours
		l.in.Reset(ours)
		l.out.Reset(ours)
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		began := time.Now()
		if _, err := l.do(post, "/", "", nil); !errors.Is(err, fasthttp.ErrTimeout) || time.Since(began) != requestTimeout || l.conn != nil {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		l.close()
	})
}
