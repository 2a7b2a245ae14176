package notify

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"
)

// shardCount splits the hub's lock: enough that ten thousand pushes a second
// rarely contend, few enough to iterate for pings.
const shardCount = 64

// hub holds this instance's sockets by user. Safe for concurrent use.
type hub struct {
	cfg    Config
	count  atomic.Int64
	closed atomic.Bool
	shards [shardCount]shard
	gauges metrics
}

type shard struct {
	mu    sync.Mutex
	users map[int64][]*socket
}

func newHub(cfg Config, m metrics) *hub {
	h := &hub{cfg: cfg, gauges: m}
	for i := range h.shards {
		h.shards[i].users = make(map[int64][]*socket)
	}
	return h
}

func (h *hub) shard(user int64) *shard {
	return &h.shards[uint64(user)%shardCount] // any spread will do, the sign does not matter
}

// add registers a socket, or returns the status that refuses it, and why: the
// instance has too many, it stops, or the user has too many.
func (h *hub) add(s *socket) (refused websocket.StatusCode, why string) {
	if n := h.count.Add(1); h.cfg.MaxSockets > 0 && n > int64(h.cfg.MaxSockets) {
		h.count.Add(-1)
		return websocket.StatusTryAgainLater, "the server is full"
	}
	sh := h.shard(s.user)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	// closed is read under the lock that close takes for its sweep: the sweep
	// either sees a socket or it is refused here.
	switch {
	case h.closed.Load():
		refused, why = websocket.StatusGoingAway, "the server is restarting"
	case len(sh.users[s.user]) >= h.cfg.MaxPerUser:
		refused, why = websocket.StatusPolicyViolation, "too many connections"
	default:
		sh.users[s.user] = append(sh.users[s.user], s)
		return 0, ""
	}
	h.count.Add(-1)
	return refused, why
}

// remove deletes a socket; a second call does nothing.
func (h *hub) remove(s *socket) {
	sh := h.shard(s.user)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	list := sh.users[s.user]
	at := slices.Index(list, s)
	if at < 0 {
		return
	}
	if list = slices.Delete(list, at, at+1); len(list) == 0 {
		delete(sh.users, s.user)
	} else {
		sh.users[s.user] = list
	}
	h.count.Add(-1)
}

// connected reports whether the user has a socket here; orders of users without
// one are not rendered.
func (h *hub) connected(user int64) bool {
	sh := h.shard(user)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return len(sh.users[user]) > 0
}

// push queues a message on each of the user's sockets and returns immediately.
func (h *hub) push(user int64, message outgoing) {
	sh := h.shard(user)
	sh.mu.Lock()
	// At most MaxPerUser sockets; queueing on each is a few instructions, so the
	// loop holds the shard's lock and does not copy the list.
	for _, s := range sh.users[user] {
		s.enqueue(message)
	}
	sh.mu.Unlock()
}

// each calls fn for every socket of one shard without holding its lock.
func (h *hub) each(i int, fn func(*socket)) {
	sh := &h.shards[i]
	sh.mu.Lock()
	var all []*socket
	for _, list := range sh.users {
		all = append(all, list...)
	}
	sh.mu.Unlock()
	for _, s := range all {
		fn(s)
	}
}
