package preheat

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"stampede/seckill/catalogue"
)

// loadsAtOnce bounds the Loads that this instance has under way. A Load
// mostly waits, for publishers and for the order writer, and holds no connection
// meanwhile; so the bound is far above the few connections that inventory and
// seckill have, which the Loads take in turn for some milliseconds each. With
// that many, others wait for a connection for a tenth of a second at most.
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
	wanted bool // a shopper has met it
}

// next takes the item whose Load is most urgent: what shoppers ask for, then
// what is on sale, then what opens soonest.
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

// hurry notes that a shopper has met the item, if it waits.
func (q *queue) hurry(id int64) {
	for k := range q.waiting {
		if q.waiting[k].item.ID == id {
			q.waiting[k].wanted = true
			return
		}
	}
}

// enqueue puts an item in line for its Load, unless this instance is at it or it
// failed a moment ago.
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

// startLoads begins as many of the waiting Loads as may run at once; each that ends
// begins the next. When the process stops, nothing begins any more, and whoever
// goes on loads what waited.
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
