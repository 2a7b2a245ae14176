package notify

import (
	"context"
	"sync"
	"time"

	"github.com/coder/websocket"

	"stampede/platform/base/app"
	"stampede/platform/edge/auth"
)

// conn is the part of a WebSocket that the hub uses; *websocket.Conn is the
// only one in production, tests use slow ones.
type conn interface {
	Write(ctx context.Context, t websocket.MessageType, p []byte) error
	Ping(ctx context.Context) error
	Close(code websocket.StatusCode, reason string) error
	CloseNow() error
}

// socket is one client's connection with its bounded queue.
type socket struct {
	user int64
	who  auth.Principal // as authenticated
	conn conn
	hub  *hub

	mu      sync.Mutex
	queue   []outgoing
	writing bool // a goroutine is emptying the queue
	closing bool
}

const (
	// queueLen is how many messages wait for one socket before it counts as slow.
	// An order changes about four times in its life; 16 leaves room for several
	// orders at the same time.
	queueLen = 16
	// writeTimeout is how long one write may take before the socket counts as slow.
	writeTimeout = 5 * time.Second
	// pingEvery is the interval at which each idle socket is pinged, below the 60 s
	// after which common proxies cut silent connections.
	pingEvery = 30 * time.Second
	// pingStep is the time between two shards' pings, so that ten thousand pings
	// spread over the whole interval.
	pingStep = pingEvery / shardCount
)

// outgoing is an encoded message. One about an order names its item, and counts as
// a push.
type outgoing struct {
	raw  []byte
	item int64
}

// greeting is the first message on every socket; it carries no order.
var greeting = outgoing{raw: []byte(`{"type":"hello"}`)}

// enqueue adds a message and starts a writer unless one is running. A full queue
// closes the socket with a status that tells the client to poll and reconnect.
func (s *socket) enqueue(message outgoing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	if len(s.queue) >= queueLen {
		s.closing = true
		s.queue = nil
		go s.dropSlow()
		return
	}
	s.queue = append(s.queue, message)
	if !s.writing {
		s.writing = true
		go s.flush()
	}
}

// flush writes until the queue is empty.
//
//nolint:contextcheck // a message outlives the request that queued it; writeTimeout bounds each
func (s *socket) flush() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 || s.closing {
			s.writing = false
			s.mu.Unlock()
			return
		}
		message := s.queue[0]
		s.queue[0] = outgoing{}
		s.queue = s.queue[1:]
		if len(s.queue) == 0 {
			s.queue = nil // frees the array while the socket is idle
		}
		s.mu.Unlock()

		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		err := s.conn.Write(ctx, websocket.MessageText, message.raw)
		slow := ctx.Err() != nil
		cancel()
		if err != nil {
			s.mu.Lock()
			already := s.closing
			s.closing, s.writing, s.queue = true, false, nil
			s.mu.Unlock()
			switch {
			case already:
			case slow:
				s.dropSlow()
			default:
				s.drop() // the client disconnected
			}
			return
		}
		if message.item != 0 {
			s.hub.gauges.pushed.Inc()
			s.hub.gauges.tally.Count(message.item, "pushes", "sent", 1)
		}
	}
}

// dropSlow closes a client that could not keep up with 1013 (try again later).
func (s *socket) dropSlow() {
	s.hub.gauges.slow.Inc()
	s.closeWith(websocket.StatusTryAgainLater, "too slow; poll and reconnect")
}

func (s *socket) drop() {
	s.hub.remove(s)
	_ = s.conn.CloseNow() // it is disconnected already
}

// closeWith sends the reason and removes the socket. Close waits up to 5 s for
// the client's answer, so callers that must not wait run it on a goroutine.
func (s *socket) closeWith(code websocket.StatusCode, reason string) {
	s.mu.Lock()
	s.closing = true
	s.queue = nil
	s.mu.Unlock()
	s.hub.remove(s)
	_ = s.conn.Close(code, reason) // a client that does not answer is cut by the library
}

// ping drops the socket if the client does not answer within the write timeout.
func (s *socket) ping(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := s.conn.Ping(ctx); err != nil {
		s.drop()
	}
}

// runPings pings one shard after the other, until ctx ends.
func (h *hub) runPings(ctx context.Context) error {
	i := 0
	return app.Loop{Every: pingStep, Do: func(ctx context.Context) error {
		h.each(i, func(s *socket) { go s.ping(ctx) })
		i = (i + 1) % shardCount
		return nil
	}}.Run(ctx)
}
