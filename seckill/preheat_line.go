package seckill

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"stampede/seckill/catalogue"
)

// preheatParallel bounds the Loads that this instance has under way. A Load
// mostly waits, for publishers and for the order writer, and holds no connection
// meanwhile; so the bound is far above the few connections that inventory and
// seckill have, which the Loads take in turn for some milliseconds each. With
// that many, others wait for a connection for a tenth of a second at most.
const preheatParallel = 64

// loadLine is the items that wait for their Load. Nothing is dropped from it
// before the process stops: an item that is not loaded cannot be sold.
type loadLine struct {
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
func (l *loadLine) next(now time.Time) *catalogue.Item {
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
	for k := range l.waiting {
		a, b := l.waiting[k], l.waiting[first]
		if cmp.Or(cmp.Compare(rank(a), rank(b)), a.item.OpensAt.Compare(b.item.OpensAt)) < 0 {
			first = k
		}
	}
	item := l.waiting[first].item
	l.waiting = slices.Delete(l.waiting, first, first+1)
	return item
}

// hurry notes that a shopper has met the item, if it waits.
func (l *loadLine) hurry(id int64) {
	for k := range l.waiting {
		if l.waiting[k].item.ID == id {
			l.waiting[k].wanted = true
			return
		}
	}
}

// start puts an item in line for its Load, unless this instance is at it or it
// failed a moment ago.
func (p *preheater) start(item *catalogue.Item, wanted bool) {
	p.mu.Lock()
	r := p.record(item.ID)
	switch {
	case r.busy:
		if wanted {
			p.line.hurry(item.ID)
		}
	case time.Now().Before(r.notUntil):
	default:
		r.busy = true
		p.line.waiting = append(p.line.waiting, waitingLoad{item, wanted})
	}
	p.mu.Unlock()
}

// work begins as many of the waiting Loads as may run at once; each that ends
// begins the next. When the process stops, nothing begins any more, and whoever
// goes on loads what waited.
func (p *preheater) work(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		for _, w := range p.line.waiting {
			p.record(w.item.ID).busy = false
		}
		p.line.waiting = nil
	}
	for p.line.running < p.line.parallel && len(p.line.waiting) > 0 {
		item := p.line.next(p.deps.Clock.Now())
		p.line.running++
		p.line.workers.Go(func() {
			p.loadEnded(ctx, item.ID, p.underLease(ctx, item))
			p.mu.Lock()
			p.line.running--
			p.mu.Unlock()
			p.work(ctx)
		})
	}
}
