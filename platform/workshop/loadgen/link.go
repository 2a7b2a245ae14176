package loadgen

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// link sends the requests that a run makes by the hundred thousand: paths,
// rushes and polls, one at a time over one kept connection. It belongs to one
// goroutine. It reads and writes fasthttp's messages, which costs half of
// net/http's client, so that on a small machine the server is measured and not
// its client; fasthttp's own client pools connections, which no shopper needs.
type link struct {
	ctx    context.Context // the link ends with it
	base   *url.URL
	forget func() bool
	req    fasthttp.Request
	resp   fasthttp.Response
	in     *bufio.Reader
	out    *bufio.Writer

	mu   sync.Mutex
	conn net.Conn // nil if there is none
}

// newLink returns a link to the next of the client's servers that ends with ctx.
func (c *client) newLink(ctx context.Context) *link {
	to := c.links[c.next.Add(1)%uint32(len(c.links))] //nolint:gosec // a handful
	l := &link{ctx: ctx, base: to, in: bufio.NewReader(nil), out: bufio.NewWriter(nil)}
	l.forget = context.AfterFunc(ctx, l.drop)
	return l
}

// do sends one request; target begins with a slash. An error means that there
// was no complete answer. The answer's body is valid until the next do.
//
// A server may close a kept connection at any moment, even while a request is in
// flight: if one that has served before ends without a byte of an answer, do
// repeats the request once over a new one. So it sends only what may be sent
// twice.
func (l *link) do(method, target, token string, body []byte) (answer, error) {
	l.req.Reset()
	l.req.Header.SetMethod(method)
	l.req.Header.SetNoDefaultContentType(true)
	l.req.SetRequestURI(strings.TrimSuffix(l.base.Path, "/") + target)
	l.req.Header.SetHost(l.base.Host)
	if token != "" {
		l.req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		l.req.Header.SetContentType("application/json")
		l.req.SetBodyRaw(body)
	}
	for {
		kept, err := l.open()
		if err != nil {
			return answer{}, err
		}
		err = l.exchange()
		if err != nil || l.resp.ConnectionClose() {
			l.drop()
		}
		if err == nil {
			seconds, _ := strconv.ParseUint(string(l.resp.Header.Peek("Retry-After")), 10, 16)                                     // 0 if it is missing
			return answer{status: l.resp.StatusCode(), body: l.resp.Body(), retryAfter: time.Duration(seconds) * time.Second}, nil //nolint:gosec // 16 bits fit
		}
		if !kept || !errors.Is(err, io.EOF) || l.ctx.Err() != nil {
			return answer{}, err
		}
	}
}

// exchange sends the request and reads the answer; io.EOF means that the
// connection ended before the answer.
func (l *link) exchange() error {
	err := l.req.Write(l.out)
	if err == nil {
		err = l.out.Flush()
	}
	if broken, ok := errors.AsType[net.Error](err); ok && !broken.Timeout() {
		return io.EOF
	}
	if err != nil {
		return err
	}
	return l.resp.ReadLimitBody(l.in, maxAnswerBytes)
}

// open connects unless there is a connection, and sets the time for the next
// exchange.
func (l *link) open() (kept bool, err error) {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	kept = conn != nil
	if !kept {
		if conn, err = l.dial(); err != nil {
			return false, err
		}
		l.in.Reset(conn)
		l.out.Reset(conn)
		l.mu.Lock()
		l.conn = conn
		l.mu.Unlock()
		if l.ctx.Err() != nil { // nothing else would close it
			l.drop()
		}
	}
	return kept, conn.SetDeadline(time.Now().Add(requestTimeout))
}

func (l *link) dial() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: requestTimeout}
	if l.base.Scheme == "https" {
		return (&tls.Dialer{NetDialer: dialer}).DialContext(l.ctx, "tcp", net.JoinHostPort(l.base.Hostname(), cmp.Or(l.base.Port(), "443")))
	}
	return dialer.DialContext(l.ctx, "tcp", net.JoinHostPort(l.base.Hostname(), cmp.Or(l.base.Port(), "80")))
}

// drop ends the connection and the request in flight; the next request opens another.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

func (l *link) close() {
	l.forget()
	l.drop()
}

// textMember finds a string member of a JSON document without decoding the
// rest: a tenth of the work, for documents that arrive by the hundred thousand.
// name includes its quotation marks. The server's documents have no nested
// objects and no such text inside their values.
func textMember(doc []byte, name string) ([]byte, bool) {
	rest, ok := member(doc, name)
	if !ok || len(rest) == 0 || rest[0] != '"' {
		return nil, false
	}
	end := bytes.IndexByte(rest[1:], '"')
	if end < 0 || bytes.IndexByte(rest[1:1+end], '\\') >= 0 {
		return nil, false
	}
	return rest[1 : 1+end], true
}

// numberMember is textMember for a non-negative integer.
func numberMember(doc []byte, name string) (int64, bool) {
	rest, ok := member(doc, name)
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	if !ok || end == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	return n, err == nil
}

func member(doc []byte, name string) ([]byte, bool) {
	at := bytes.Index(doc, []byte(name))
	if at < 0 {
		return nil, false
	}
	rest := bytes.TrimLeft(doc[at+len(name):], " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return nil, false
	}
	return bytes.TrimLeft(rest[1:], " \t\r\n"), true
}

// rushTarget is the target to which a path is sent.
func rushTarget(path string) string { return "/api/v1/rush/" + path }

// The methods of the hot requests.
const (
	get  = http.MethodGet
	post = http.MethodPost
)
