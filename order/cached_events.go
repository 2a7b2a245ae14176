package order

import (
	"context"
	"sync"

	"stampede/platform/base/ids"
)

// cachedEvents records which of the writer's events contain orders that this
// process has put into the cache itself, so that their subscription need not
// decode thousands of orders to find each of them there. It keeps only the
// latest and may forget one; the subscription then decodes it. Safe for
// concurrent use.
type cachedEvents struct {
	mu     sync.Mutex
	byID   map[ids.ID]*cachePut
	latest [cachedEventsKept]ids.ID // the keys of byID, the oldest at next
	next   int
}

// cachedEventsKept is several seconds' worth of events at some 4,000 orders
// each, which is longer than the relay takes.
const cachedEventsKept = 256

// cachePut is one put by the writer. ok is set before done closes.
type cachePut struct {
	done chan struct{}
	ok   bool
}

// begin notes that the orders of events are being put; end reports whether that
// succeeded.
func (c *cachedEvents) begin(events []ids.ID) (end func(ok bool)) {
	p := &cachePut{done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = make(map[ids.ID]*cachePut, cachedEventsKept)
	}
	for _, id := range events {
		delete(c.byID, c.latest[c.next])
		c.byID[id], c.latest[c.next] = p, id
		c.next = (c.next + 1) % len(c.latest)
	}
	return func(ok bool) { p.ok = ok; close(p.done) }
}

// has reports whether this process has put an event's orders into the cache. It
// waits while they are being put.
func (c *cachedEvents) has(ctx context.Context, event ids.ID) bool {
	c.mu.Lock()
	p := c.byID[event]
	c.mu.Unlock()
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return p.ok
	case <-ctx.Done():
		return false
	}
}
