package preheat

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"stampede/seckill/catalogue"
)

// loadsAtOnce bounds this instance's concurrent Loads. A Load mostly waits, for
// publishers and for the order writer, and holds no connection meanwhile; so the
// bound is far above the few connections of inventory and seckill, which the
// Loads use in turn for some milliseconds each. With this many Loads, other
// users of the pool wait for a connection for a tenth of a second at most.
const loadsAtOnce = 64

// queue is the items that wait for their Load. Nothing is dropped from it
// before the process stops: an item that is not loaded cannot be sold.
type queue struct {
	parallel int
	waiting  []waitingLoad
	running  int
	workers  sync.WaitGroup
}

type waitingLoad struct {
	item   *catalogue.Item
	wanted bool // a shopper has requested it
}

// next takes the most urgent item: those that shoppers have requested, then
// those on sale, then those that open soonest.
func (q *queue) next(now time.Time) *catalogue.Item {
	rank := func(w waitingLoad) int {
		switch {
		case w.wanted:
			return 0
		case !w.item.OpensAt.After(now):
			return 1
		default:
			return 2
		}
	}
	first := 0
	for k := range q.waiting {
		a, b := q.waiting[k], q.waiting[first]
		if cmp.Or(cmp.Compare(rank(a), rank(b)), a.item.OpensAt.Compare(b.item.OpensAt)) < 0 {
			first = k
		}
	}
	item := q.waiting[first].item
	q.waiting = slices.Delete(q.waiting, first, first+1)
	return item
}

// hurry records that a shopper has requested the item, if it is waiting.
func (q *queue) hurry(id int64) {
	for k := range q.waiting {
		if q.waiting[k].item.ID == id {
			q.waiting[k].wanted = true
			return
		}
	}
}

// enqueue queues an item for its Load, unless this instance is already loading
// it or failed to a moment ago.
func (s *Service) enqueue(item *catalogue.Item, wanted bool) {
	s.mu.Lock()
	r := s.record(item.ID)
	switch {
	case r.busy:
		if wanted {
			s.queue.hurry(item.ID)
		}
	case time.Now().Before(r.notUntil):
	default:
		r.busy = true
		s.queue.waiting = append(s.queue.waiting, waitingLoad{item, wanted})
	}
	s.mu.Unlock()
}

// startLoads starts as many of the waiting Loads as may run concurrently; each that
// ends starts the next. When the process stops, no further Load starts, and other
// instances load the items that waited.
func (s *Service) startLoads(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		for _, w := range s.queue.waiting {
			s.record(w.item.ID).busy = false
		}
		s.queue.waiting = nil
	}
	for s.queue.running < s.queue.parallel && len(s.queue.waiting) > 0 {
		item := s.queue.next(s.deps.Clock.Now())
		s.queue.running++
		s.queue.workers.Go(func() {
			s.loadEnded(ctx, item.ID, s.load(ctx, item))
			s.mu.Lock()
			s.queue.running--
			s.mu.Unlock()
			s.startLoads(ctx)
		})
	}
}
