package httpx

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DirectRequest is a request of the direct route: all that its handler may know of it.
type DirectRequest struct {
	Last           string // the last segment of the path
	AcceptLanguage string // the header; several lines as one list
	BodyBytes      int64  // Content-Length, -1 if it is unknown
	// Left reports whether the client has left. Safe for concurrent use until the
	// handler returns.
	Left func() bool
}

// DirectAnswer is the answer to a DirectRequest.
type DirectAnswer struct {
	Status     int
	RetryAfter int // seconds; 0 is none
	// RequestID ties the answer to its log lines: the client's, or a new one.
	RequestID string
	// Body is JSON: a problem, unless the status is below 400. The handler appends to
	// the slice that it finds here.
	Body []byte
}

// DirectHandler answers the direct route's requests. It is called concurrently.
type DirectHandler func(ctx context.Context, req *DirectRequest, into *DirectAnswer)

// direct is the only route that is found without the router, and without net/http
// where the request is plain: see conn.answerPlain.
type direct struct {
	method, prefix string
	handler        DirectHandler
	limits         []Limit // which the handler enforces
	fields         []byte  // the header fields of every answer on the wire
	sameOrigin     bool    // no page of another origin may call
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
	req   DirectRequest
	reply DirectAnswer
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
	ctx := r.Context()
	e.req = DirectRequest{
		Last: strings.TrimPrefix(r.URL.Path, d.prefix), AcceptLanguage: strings.Join(r.Header["Accept-Language"], ","),
		BodyBytes: r.ContentLength, Left: func() bool { return ctx.Err() != nil },
	}
	e.reply = DirectAnswer{RequestID: SetRequestID(w, r), Body: e.reply.Body[:0]}
	d.handler(ctx, &e.req, &e.reply)
	h := w.Header()
	h["Content-Type"] = []string{e.reply.contentType()}
	h["Content-Length"] = []string{strconv.Itoa(len(e.reply.Body))}
	if e.reply.RetryAfter > 0 {
		h["Retry-After"] = []string{strconv.Itoa(e.reply.RetryAfter)}
	}
	w.WriteHeader(e.reply.Status)
	_, _ = w.Write(e.reply.Body) // the client may be gone; no reader is left for an error
}

func (r *DirectAnswer) contentType() string {
	if r.Status < http.StatusBadRequest {
		return "application/json"
	}
	return ProblemContentType
}

// append appends the answer as it is sent, with the route's fields.
func (r *DirectAnswer) append(b, fields []byte, closes bool) []byte {
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
