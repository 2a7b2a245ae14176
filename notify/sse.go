package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// streamPath is where clients follow the same messages as server-sent events.
const streamPath = "/api/v1/sse"

// resumeMargin is how much earlier than the last event a resumed stream begins. A
// message may have waited for queueLen writes of writeTimeout each, 80 s, when an event
// with a later time was sent; the rest is for the event's way here and for clocks.
const resumeMargin = 2 * time.Minute

// aheadMost is how far ahead of the time an id may be, as of an instance whose clock was. Ids
// beyond it were never sent, and some are beyond what Postgres knows as a time.
const aheadMost = 24 * time.Hour

var (
	errTooManySockets = fault.Plain(fault.Unavailable,
		fault.T("Too many connections are open. Close some, and try again in a moment.", "打开的连接过多，请关闭一些后重试。")).After(time.Second)
	errLastEventID = fault.Plain(fault.BadRequest,
		fault.T("Last-Event-ID must be the id of an event that this route has sent.", "Last-Event-ID 必须是此接口发送过的事件编号。"))
)

// stream is a socket's connection as server-sent events. The request's handler waits
// until it has ended.
type stream struct {
	end   context.CancelFunc
	mu    sync.Mutex // events are written one after the other, and none after the handler has returned
	out   http.ResponseWriter
	since string // the id that the client resumes from, until it has what changed since
	ended bool
}

// send writes an event. Its id says up to when the client has what was sent: the
// server's time, or since.
func (s *stream) send(event string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(event)
}

// write is send for a caller that has s.mu.
func (s *stream) write(event string) error {
	if s.ended {
		return net.ErrClosed
	}
	id := cmp.Or(s.since, strconv.FormatInt(time.Now().UnixMilli(), 10))
	if _, err := fmt.Fprintf(s.out, "id: %s\n%s\n\n", id, event); err != nil {
		return err
	}
	return http.NewResponseController(s.out).Flush()
}

// Write sends a message. The connection bounds the time that it may take; a client that
// took it later than ctx counts as slow.
func (s *stream) Write(ctx context.Context, _ websocket.MessageType, message []byte) error {
	if err := s.send("data: " + string(message)); err != nil {
		return err
	}
	return ctx.Err()
}

// Ping sends an event without data, which is none to the client's handlers.
func (s *stream) Ping(context.Context) error { return s.send(": ping") }

// Close sends what a WebSocket has in its close frame.
func (s *stream) Close(code websocket.StatusCode, reason string) error {
	defer s.end()
	said, err := json.Marshal(map[string]any{"code": code, "reason": reason})
	if err != nil {
		return err
	}
	return s.send("event: close\ndata: " + string(said))
}

func (s *stream) CloseNow() error {
	s.end()
	return nil
}

// resumed lets the events carry the time.
func (s *stream) resumed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = ""
}

// finish waits for a write that is under way, and lets no other begin.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// streamRoute registers the stream.
func (s *Service) streamRoute(api httpx.API) {
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: streamPath, ID: "push-sse", Tag: "shopper", Role: auth.Shopper, Class: httpx.Held, Load: httpx.Costly,
		Summary: "Follow every change of your orders (server-sent events)",
		Description: "For networks that break WebSockets: the `data` of each event is a message that GET " + path + " describes, beginning with `{\"type\":\"hello\"}`. " +
			"The token comes in the Authorization header, which EventSource cannot set: read the stream with fetch. " +
			"After an interruption send the last id as `Last-Event-ID`: the stream then begins with your orders that have changed since, some of them perhaps again; take the higher `version`. " +
			"An event named `close` is the last; its `data` has the `code` and `reason` that a WebSocket would be closed with.",
		Refuses: []*fault.Error{errLastEventID, errTooManySockets},
	}, s.follow)
	api.Huma.OpenAPI().Paths[streamPath].Get.Responses["200"].Content = map[string]*huma.MediaType{"text/event-stream": {
		Schema:  &huma.Schema{Type: huma.TypeString, Description: "Events with `id` and `data`, each ended by an empty line; an event without `data` keeps the connection alive"},
		Example: "id: 1763035200000\ndata: {\"type\":\"hello\"}\n\n",
	}}
}

type followInput struct {
	LastEventID string `header:"Last-Event-ID" doc:"The id of the last event that the client has; the stream begins with your orders that have changed since"`
}

// follow answers with a stream.
func (s *Service) follow(_ context.Context, in *followInput) (*huma.StreamResponse, error) {
	var since time.Time
	if in.LastEventID != "" {
		ms, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil || ms < 0 {
			return nil, errLastEventID.Because(err)
		}
		if since = time.UnixMilli(ms).Add(-resumeMargin); since.After(time.Now().Add(aheadMost)) {
			return nil, errLastEventID
		}
	}
	return &huma.StreamResponse{Body: func(out huma.Context) { s.serve(out, in.LastEventID, since) }}, nil //nolint:contextcheck // huma.Context carries the request's context
}

// serve sends a stream's events until the client leaves, its login ends or the server stops.
func (s *Service) serve(out huma.Context, lastID string, since time.Time) {
	r, w := humachi.Unwrap(out)
	ctx, end := context.WithCancel(r.Context())
	defer end()
	conn := &stream{out: w, end: end, since: lastID}
	defer conn.finish()
	who := auth.From(ctx)
	sock := &socket{user: who.UserID, who: who, conn: conn, hub: s.hub}
	conn.mu.Lock() // a push may come as soon as the hub knows the socket; the greeting is first
	if refused, _ := s.hub.add(sock); refused != 0 {
		conn.mu.Unlock()
		httpx.WriteProblem(w, r, errTooManySockets)
		return
	}
	defer s.hub.remove(sock)
	httpx.BeginEvents(w.Header().Set)
	_ = conn.write("data: " + string(greeting.raw)) // ctx ends if the client has left
	conn.mu.Unlock()
	if s.ended(ctx, sock) { // since the token was checked, when the hub did not know the socket
		<-ctx.Done()
		return
	}
	if !since.IsZero() && !s.resume(ctx, conn, since) {
		_ = conn.Close(websocket.StatusTryAgainLater, "your orders cannot be read right now; poll and reconnect")
		return
	}
	conn.resumed()
	select {
	case <-ctx.Done():
	case <-s.stopping:
		sock.closeWith(websocket.StatusGoingAway, "the server is restarting")
	}
}

// resume sends the user's orders that have changed since then. What changes meanwhile is
// pushed beside it: a client takes the higher version.
func (s *Service) resume(ctx context.Context, conn *stream, since time.Time) bool {
	orders, err := s.deps.Changed(ctx, since)
	if err != nil {
		return false
	}
	for _, o := range orders {
		raw, err := json.Marshal(orderMessage{"order", o})
		if err != nil || conn.Write(ctx, websocket.MessageText, raw) != nil {
			return false
		}
	}
	return true
}

// EndStreams ends the streams of server-sent events. A stop calls it before requests
// drain, which would otherwise wait for them. Call it once.
func (s *Service) EndStreams(context.Context) error {
	close(s.stopping)
	return nil
}
