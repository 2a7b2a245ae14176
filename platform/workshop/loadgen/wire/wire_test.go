package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 5 * time.Second

// serve answers every connection with the given texts, one per request, and
// closes it after the last.
func serve(t *testing.T, answers ...string) (addr string, dials func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	count := make(chan int, 1)
	count <- 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			count <- 1 + <-count
			in := bufio.NewReader(conn)
			for _, a := range answers {
				if _, err := http.ReadRequest(in); err != nil {
					break
				}
				_, _ = io.WriteString(conn, a)
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return l.Addr().String(), func() int { n := <-count; count <- n; return n }
}

func dial(t *testing.T, addr string) *Conn {
	t.Helper()
	c := New(addr, patience)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestAnswers reads every legal form of an answer, twice over one connection,
// so that unread bytes of the first would break the second.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw    string
		status int
		body   string
		retry  time.Duration
	}{
		"length":               {"HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\nabc", 202, "abc", 0},
		"no reason":            {"HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", 200, "", 0},
		"bare line feeds":      {"HTTP/1.1 200 OK\nContent-Length: 1\n\nx", 200, "x", 0},
		"chunks":               {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;a=b\r\nab\r\n1 \r\nc\r\n0\r\nTrailer: x\r\n\r\n", 200, "abc", 0},
		"chunks over a length": {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 200, "a", 0},
		"no content":           {"HTTP/1.1 204 No Content\r\n\r\n", 204, "", 0},
		"not modified":         {"HTTP/1.1 304 Not Modified\r\nContent-Length: 42\r\n\r\n", 304, "", 0},
		"informational":        {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nz", 200, "z", 0},
		"retry after":          {"HTTP/1.1 429 Too Many Requests\r\nRetry-After:  7 \r\nContent-Length: 0\r\n\r\n", 429, "", 7 * time.Second},
		"retry after nonsense": {"HTTP/1.1 503 X\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n", 503, "", 0},
		"long field":           {"HTTP/1.1 200 OK\r\nSet-Cookie: " + strings.Repeat("c", 3*readBufferBytes) + "\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", 0},
		"same length twice":    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, dials := serve(t, c.raw, c.raw)
			conn, resp := dial(t, addr), Response{}
			for range 2 {
				if err := conn.Do(AppendRequest(nil, "GET", addr, "/", "", nil), &resp); err != nil {
					t.Fatal(err)
				}
				if resp.Status != c.status || string(resp.Body) != c.body || resp.RetryAfter != c.retry {
					t.Fatalf("%d %q retry after %s, want %d %q %s", resp.Status, resp.Body, resp.RetryAfter, c.status, c.body, c.retry)
				}
			}
			if n := dials(); n != 1 {
				t.Fatalf("%d connections for two requests", n)
			}
		})
	}
}

// TestRefusesNonsense checks that invalid answers are refused.
func TestRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"no protocol":       "hello\r\n\r\n",
		"other protocol":    "HTTP/2.0 200 OK\r\n\r\n",
		"short status":      "HTTP/1.1 20 OK\r\n\r\n",
		"two lengths":       "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"negative length":   "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"cut body":          "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
		"cut head":          "HTTP/1.1 200 OK\r\nContent-Le",
		"huge body":         "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n",
		"huge chunk":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n",
		"bad chunk":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
		"long chunk":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
		"gzip":              "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"folded field":      "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
		"endless header":    "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", maxHeaderBytes/6+1) + "\r\n",
		"endless 1xx":       strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxInformational+1),
		"switched protocol": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r Response
			err := r.read(bufio.NewReaderSize(strings.NewReader(raw), readBufferBytes), false)
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("status %d body %q, error %v", r.Status, r.Body, err)
			}
		})
	}
}

// TestConnectionEnds tests a server that closes connections: announced, by
// HTTP/1.0, by the end of the body, and unannounced.
func TestConnectionEnds(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"announced":   "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0":    "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"end of body": "HTTP/1.1 200 OK\r\n\r\nok",
		"silently":    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, dials := serve(t, raw)
			conn, resp := dial(t, addr), Response{}
			for range 3 {
				if err := conn.Do(AppendRequest(nil, "GET", addr, "/", "", nil), &resp); err != nil {
					t.Fatal(err)
				}
				if resp.Status != 200 || string(resp.Body) != "ok" {
					t.Fatalf("%d %q", resp.Status, resp.Body)
				}
			}
			if n := dials(); n != 3 {
				t.Fatalf("%d connections for three requests", n)
			}
		})
	}
}

// TestNoAnswer checks that nothing is repeated on a fresh connection: a server
// that closes without an answer may have acted.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	addr, dials := serve(t, "")
	conn, resp := dial(t, addr), Response{}
	if err := conn.Do(AppendRequest(nil, "GET", addr, "/", "", nil), &resp); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if n := dials(); n != 1 {
		t.Fatalf("%d connections", n)
	}
}

// TestTimeout gives up on a silent server, and does not send twice.
func TestTimeout(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts by the kernel, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	conn := New(l.Addr().String(), 500*time.Millisecond)
	defer func() { _ = conn.Close() }()
	began, resp := time.Now(), Response{}
	err = conn.Do(AppendRequest(nil, "GET", "x", "/", "", nil), &resp)
	var late net.Error
	if !errors.As(err, &late) || !late.Timeout() {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 3*500*time.Millisecond {
		t.Fatalf("gave up after %s", took)
	}
}

// TestClose checks that Close ends a running Do, and every later one.
func TestClose(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	conn := New(l.Addr().String(), patience)
	done := make(chan error, 1)
	go func() {
		var resp Response
		done <- conn.Do(AppendRequest(nil, "GET", "x", "/", "", nil), &resp)
	}()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	if _, err := server.Read(make([]byte, 1)); err != nil { // the request has been sent
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := conn.Do(nil, new(Response)); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// TestRequests checks that net/http parses the requests as intended.
func TestRequests(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %q %q %s", r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), body)
	}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	conn, resp := dial(t, addr), Response{}
	for want, req := range map[string][]byte{
		`GET /a "" "" `:  AppendRequest(nil, "GET", addr, "/a", "", nil),
		`POST /b "" "" `: AppendRequest(nil, "POST", addr, "/b", "", nil),
		`POST /c "Bearer tok" "application/json" {"n":1}`: AppendRequest(nil, "POST", addr, "/c", "tok", []byte(`{"n":1}`)),
	} {
		if err := conn.Do(req, &resp); err != nil {
			t.Fatal(err)
		}
		if string(resp.Body) != want {
			t.Errorf("%s, want %s", resp.Body, want)
		}
	}
	if err := conn.Do(AppendRequest(nil, "HEAD", addr, "/a", "", nil), &resp); err != nil || resp.Status != 200 || len(resp.Body) != 0 {
		t.Fatalf("HEAD: %d %q %v", resp.Status, resp.Body, err)
	}
}

// TestNoAllocations checks that reading an answer does not allocate.
func TestNoAllocations(t *testing.T) {
	raw := []byte("HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nRetry-After: 1\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\nContent-Length: 20\r\n\r\n{\"status\":\"queued\"}\n")
	src, in, r := bytes.NewReader(raw), bufio.NewReaderSize(nil, readBufferBytes), Response{Body: make([]byte, 0, 64)}
	if n := testing.AllocsPerRun(100, func() {
		src.Reset(raw)
		in.Reset(src)
		if err := r.read(in, false); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations to read an answer", n)
	}
}

// FuzzRead compares the parser with net/http's: whatever both accept means the
// same, and no input makes it panic or read past its bounds.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: a\r\n\r\n2;x=y\r\nab\r\n0\r\na: b\r\n\r\n",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nrest",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 \r\nRetry-After: 3\r\n\r\n",
		"HTTP/1.1 503 X\r\nRetry-After: Fri, 20 Nov 2026 12:00:00 GMT\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r Response
		if r.read(bufio.NewReaderSize(bytes.NewReader(raw), readBufferBytes), false) != nil {
			return
		}
		if r.Status < 200 || r.Status > 999 || r.RetryAfter < 0 || len(r.Body) > maxBodyBytes {
			t.Fatalf("%+v", r)
		}
		in := bufio.NewReader(bytes.NewReader(raw))
		for range maxInformational {
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				return
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				return
			}
			if resp.StatusCode < 200 {
				continue
			}
			if resp.StatusCode != r.Status || !bytes.Equal(body, r.Body) {
				t.Fatalf("net/http reads %d %q, this %d %q", resp.StatusCode, body, r.Status, r.Body)
			}
			return
		}
	})
}
