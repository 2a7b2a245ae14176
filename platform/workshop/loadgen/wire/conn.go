// Package wire is an HTTP/1.1 client for load: one request at a time over one
// kept-alive TCP connection, from prepared bytes into reused buffers. It
// allocates nothing per request and costs about a third of net/http's client,
// so that on a small machine the server is measured and not its client.
//
//	conn := wire.New("127.0.0.1:8080", 5*time.Second)
//	req := wire.AppendRequest(nil, "POST", "127.0.0.1:8080", "/api/v1/rush/"+path, "", nil)
//	var resp wire.Response
//	err := conn.Do(req, &resp) // resp.Status, resp.Body, resp.RetryAfter
//
// It accepts every answer that RFC 9112 allows for such a request:
// informational ones before the final one, lengths, chunks with extensions and
// trailers, a body that ends with the connection, none at all. It does not do
// TLS, redirects, compression or cookies; use net/http for those.
//
// A Conn belongs to one goroutine; many connections are many Conns. Close is
// the exception: it may be called from any goroutine and ends the running Do.
package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// readBufferBytes fits a typical answer, so that it takes one system call.
const readBufferBytes = 4 << 10

// Conn is a connection to one server. It reconnects when the server has closed it.
type Conn struct {
	addr    string
	timeout time.Duration
	in      *bufio.Reader
	until   time.Time // the deadline in force
	used    bool      // the current connection has carried an answer

	mu     sync.Mutex
	tcp    net.Conn // nil if there is none
	closed bool
}

// ErrClosed is returned by Do after Close.
var ErrClosed = errors.New("wire: the connection was closed by its owner")

// errStale is why a kept connection is dropped instead of reused.
var errStale = errors.New("the server sent data before a request")

// New returns a connection to addr, host:port, which the first Do opens.
// timeout bounds dialing and each request; it must be positive.
func New(addr string, timeout time.Duration) *Conn {
	return &Conn{addr: addr, timeout: timeout, in: bufio.NewReaderSize(nil, readBufferBytes)}
}

// open returns the TCP connection, a new one if necessary.
func (c *Conn) open() (net.Conn, error) {
	c.mu.Lock()
	tcp, closed := c.tcp, c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case tcp != nil:
		return tcp, nil
	}
	dialer := net.Dialer{Timeout: c.timeout} // no context: the timeout bounds it, and Close ends a Conn
	tcp, err := dialer.Dial("tcp", c.addr)
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = tcp.Close()
		return nil, ErrClosed
	}
	c.tcp, c.used, c.until = tcp, false, time.Time{}
	c.in.Reset(tcp)
	return tcp, nil
}

// drop ends the TCP connection; the next request opens another.
func (c *Conn) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tcp != nil {
		_ = c.tcp.Close()
		c.tcp = nil
	}
}

// Close ends the connection and the request in flight. It may be called more
// than once and from any goroutine.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.tcp == nil {
		return nil
	}
	err := c.tcp.Close()
	c.tcp = nil
	return err
}

// Do sends req, the bytes of one request, and reads its answer. An error means
// that there was no complete answer; the next Do then reconnects. A server may
// close a kept connection at any moment, even while a request is in flight: if
// a connection that has served before ends without a byte of an answer, Do
// repeats the request once over a new one. So send only requests that may be
// sent twice, or dial for each request. Do reuses into's memory.
func (c *Conn) Do(req []byte, into *Response) error {
	for {
		tcp, err := c.open()
		if err != nil {
			return err
		}
		again := c.used
		began, err := c.exchange(tcp, req, into)
		if err == nil {
			c.used = true
			if into.Close {
				c.drop()
			}
			return nil
		}
		c.drop()
		var late net.Error
		if began || !again || errors.As(err, &late) && late.Timeout() {
			return c.explain(err)
		}
	}
}

// exchange sends and reads once; began reports whether any part of an answer arrived.
func (c *Conn) exchange(tcp net.Conn, req []byte, into *Response) (began bool, err error) {
	if c.in.Buffered() > 0 {
		// The server has sent data without a request, usually the reason for
		// closing the connection. Reading that as the answer would shift every
		// later one.
		return false, errStale
	}
	// Setting a deadline costs as much as parsing an answer, so several
	// requests share one: each gets at least the timeout and at most a quarter
	// more.
	if now := time.Now(); c.until.Sub(now) < c.timeout {
		c.until = now.Add(c.timeout + c.timeout/4)
		if err := tcp.SetDeadline(c.until); err != nil {
			return false, err
		}
	}
	if _, err := tcp.Write(req); err != nil {
		return false, err
	}
	if _, err := c.in.Peek(1); err != nil {
		return false, err
	}
	return true, into.read(c.in, isHead(req))
}

func isHead(req []byte) bool { return len(req) > 5 && string(req[:5]) == "HEAD " }

// explain wraps an error with its context.
func (c *Conn) explain(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("wire: the server closed the connection without an answer: %w", io.ErrUnexpectedEOF)
	default:
		return fmt.Errorf("wire: %w", err)
	}
}

// AppendRequest appends a request's bytes to dst. target begins with a slash;
// token, if not empty, becomes a bearer token, and body, if not nil, a JSON
// document. Nothing is escaped or checked.
func AppendRequest(dst []byte, method, host, target, token string, body []byte) []byte {
	dst = append(append(dst, method...), ' ')
	dst = append(append(dst, target...), " HTTP/1.1\r\nHost: "...)
	dst = append(append(dst, host...), "\r\n"...)
	if token != "" {
		dst = append(append(append(dst, "Authorization: Bearer "...), token...), "\r\n"...)
	}
	switch {
	case body != nil:
		dst = append(dst, "Content-Type: application/json\r\nContent-Length: "...)
		dst = append(strconv.AppendInt(dst, int64(len(body)), 10), "\r\n"...)
	case method == "POST" || method == "PUT" || method == "PATCH":
		dst = append(dst, "Content-Length: 0\r\n"...) // RFC 9110 recommends it if a body would be usual
	}
	dst = append(dst, "\r\n"...)
	return append(dst, body...)
}
