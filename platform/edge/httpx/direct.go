package httpx

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"stampede/platform/edge/plainhttp"
)

// Knock is a request of the direct route: all that its handler may know of it. The
// slices are valid until the handler returns.
type Knock struct {
	Last           []byte // the last segment of the path
	AcceptLanguage []byte // the header; several lines as one list
	BodyBytes      int64  // Content-Length, -1 if it is unknown
	// Left reports whether the client has left. Safe for concurrent use until the
	// handler returns.
	Left func() bool
}

// Reply is the answer to a Knock.
type Reply struct {
	Status     int
	RetryAfter int // seconds; 0 is none
	// RequestID ties the answer to its log lines: the client's, or a new one.
	RequestID string
	// Body is JSON: a problem, unless the status is below 400. The handler appends to
	// the slice that it finds here.
	Body []byte
}

// DirectHandler answers the direct route's requests. It is called concurrently.
type DirectHandler func(ctx context.Context, req *Knock, reply *Reply)

// direct is the only route that is found without the router, and without net/http
// where the request is plain: see conn.answerPlain.
type direct struct {
	method, prefix string
	handler        DirectHandler
	limits         []Limit // which the handler enforces
	fields         []byte  // the header fields of every answer on the wire
	sameOrigin     bool    // pages of other origins may not call
}

// Direct registers the rush on Bare and lets its requests bypass the router: finding
// the route would cost a tenth of a refusal. prefix is the path up to its last
// segment, which the handler parses itself; limits are for the document, the handler
// enforces them. There is one such route, a POST; call Direct before serving.
func (rt *Router) Direct(prefix string, h DirectHandler, limits ...Limit) {
	rt.direct = direct{http.MethodPost, prefix, h, limits, nil, len(rt.with.Origins) == 0}
	always := http.Header{}
	rt.setSecurity(always)
	if !rt.direct.sameOrigin {
		always.Set("Vary", "Origin") // as crossOrigin does
	}
	var fields strings.Builder
	_ = always.Write(&fields) // a builder never fails
	rt.direct.fields = []byte(fields.String())
	rt.Bare.Post(prefix+"{segment}", rt.secured(rt.direct.serve)) // for other methods and for listing the routes
}

// find returns the direct route's segment of a path without escapes.
func (d *direct) find(path string) (last string, ok bool) {
	last, ok = strings.CutPrefix(path, d.prefix)
	return last, ok && last != "" && strings.IndexByte(last, '/') < 0
}

// exchange is a request of the direct route with its answer. It is pooled.
type exchange struct {
	knock Knock
	reply Reply
	last  []byte // backs knock.Last for net/http
	out   []byte // the answer on the wire
	conn  *conn
	since time.Duration // when the request arrived, since conn.list.began
	left  func() bool   // hasLeft, as a value made once
}

var exchanges = sync.Pool{New: func() any {
	e := new(exchange)
	e.left = e.hasLeft
	return e
}}

// serve answers what came through net/http.
func (d *direct) serve(w http.ResponseWriter, r *http.Request) {
	e := exchanges.Get().(*exchange) //nolint:errcheck // the pool holds nothing else
	defer exchanges.Put(e)
	last := strings.TrimPrefix(r.URL.Path, d.prefix)
	e.last = append(e.last[:0], last...)
	ctx := r.Context()
	e.knock = Knock{Last: e.last, BodyBytes: r.ContentLength, Left: func() bool { return ctx.Err() != nil }}
	if accept := r.Header["Accept-Language"]; len(accept) > 0 {
		e.knock.AcceptLanguage = []byte(strings.Join(accept, ","))
	}
	e.reply = Reply{RequestID: SetRequestID(w, r), Body: e.reply.Body[:0]}
	d.handler(ctx, &e.knock, &e.reply)
	h := w.Header()
	h["Content-Type"] = []string{e.reply.contentType()}
	h["Content-Length"] = []string{strconv.Itoa(len(e.reply.Body))}
	if e.reply.RetryAfter > 0 {
		h["Retry-After"] = []string{strconv.Itoa(e.reply.RetryAfter)}
	}
	w.WriteHeader(e.reply.Status)
	_, _ = w.Write(e.reply.Body) // the client may be gone; no reader is left for an error
}

func (r *Reply) contentType() string {
	if r.Status < http.StatusBadRequest {
		return "application/json"
	}
	return ProblemContentType
}

// append appends the answer as it is sent, with the route's fields.
func (r *Reply) append(b, fields []byte, closes bool) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(r.Status)...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(r.Body)), 10)
	b = append(b, "\r\nContent-Type: "...)
	b = append(b, r.contentType()...)
	b = append(b, "\r\nDate: "...)
	b = append(b, date()...)
	if r.RetryAfter > 0 {
		b = append(b, "\r\nRetry-After: "...)
		b = strconv.AppendInt(b, int64(r.RetryAfter), 10)
	}
	b = append(b, "\r\nX-Request-Id: "...)
	b = append(b, r.RequestID...)
	if closes {
		b = append(b, "\r\nConnection: close"...)
	}
	b = append(b, "\r\n"...)
	b = append(b, fields...)
	b = append(b, "\r\n"...)
	return append(b, r.Body...)
}

// dated is the Date of a second.
type dated struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[dated]

func date() string {
	now := time.Now()
	d := lastDate.Load()
	if d == nil || d.second != now.Unix() {
		d = &dated{now.Unix(), now.UTC().Format(http.TimeFormat)}
		lastDate.Store(d)
	}
	return d.text
}

const (
	// stalePeer is after what time in line a client is asked whether it is still there:
	// the system call would cost a tenth of an attempt, and few leave in less.
	stalePeer = 100 * time.Millisecond
	// renewEvery is how often a connection's time to be idle begins anew while it sends
	// plain requests.
	renewEvery = idleTimeout / 4
)

// answerPlain answers the plain requests of the direct route at the beginning of b, and
// returns what remains, which is for net/http. It is called by Read while net/http waits
// for a request with nothing in its buffer: this saves net/http's header map, its reader
// that watches for the client's leaving, and its writer, which together cost as much as
// all that Stampede does for an attempt. An error closes the connection.
func (c *conn) answerPlain(b []byte) (rest []byte, err error) {
	d := c.list.direct
	var r plainhttp.Request
	answered := true
	defer func() {
		if !answered { // the handler panicked, and net/http is about to close the connection
			c.phase.Store(waits)
		}
	}()
	for len(b) > 0 {
		n := r.Read(b)
		if n == 0 || r.Origin && !d.sameOrigin {
			return b, nil
		}
		last, ok := d.find(string(r.Path))
		if !ok {
			return b, nil
		}
		if !c.phase.CompareAndSwap(waits, answers) {
			return nil, net.ErrClosed
		}
		answered = false
		err := c.answer(d, &r, last)
		answered, b = true, b[n:]
		if !c.phase.CompareAndSwap(answers, waits) { // the server closed it meanwhile
			_ = c.close()
			return nil, net.ErrClosed
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// answer answers one request; io.EOF ends the connection in good order.
func (c *conn) answer(d *direct, r *plainhttp.Request, last string) error {
	c.idle.Store(busy)
	now := c.list.now()
	e := exchanges.Get().(*exchange) //nolint:errcheck // the pool holds nothing else
	defer exchanges.Put(e)
	defer func() { e.conn = nil }()
	e.conn, e.since = c, now
	e.last = append(e.last[:0], last...)
	e.knock = Knock{Last: e.last, AcceptLanguage: r.AcceptLanguage, Left: e.left}
	e.reply = Reply{Body: e.reply.Body[:0]}
	if e.reply.RequestID = string(r.RequestID); !validRequestID(e.reply.RequestID) {
		e.reply.RequestID = newRequestID()[0]
	}
	d.handler(context.Background(), &e.knock, &e.reply)
	closes := c.list.draining.Load()
	e.out = e.reply.append(e.out[:0], d.fields, closes)
	if _, err := c.Write(e.out); err != nil {
		return err
	}
	now = c.list.now()
	c.asked.Store(int64(now))
	c.idle.Store(int64(now))
	if c.opening {
		c.unknown.Store(true)
	}
	if closes || c.list.draining.Load() {
		return io.EOF
	}
	if now-c.renewed >= renewEvery {
		c.renewed = now
		return c.Conn.SetReadDeadline(time.Now().Add(idleTimeout))
	}
	return nil
}

// hasLeft is Knock.Left on the wire. Nothing reads from the connection while a plain
// request is answered, so the system is asked, without taking what it has.
func (e *exchange) hasLeft() bool {
	if e.conn.list.now()-e.since < stalePeer {
		return false
	}
	return gone(e.conn.Conn)
}

// gone reports whether the other side has closed the connection.
func gone(nc net.Conn) (gone bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) { // Read would fail where net/http's deadline has passed
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)      //nolint:gosec // a descriptor
		gone = n == 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EINTR //nolint:errorlint // system calls return them bare
	})
	return gone || err != nil
}
