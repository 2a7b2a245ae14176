package reservation

import (
	"context"
	"sync"
)

const (
	// batchMost bounds what is asked at once: 512 take Postgres a few milliseconds,
	// and a crowd's cost for each does not fall further.
	batchMost = 512
	// batchesAtOnce are under way at the same time: while one waits for Postgres the
	// other is put together, and a crowd takes no more connections than these from
	// the module's others, whatever holds it up.
	batchesAtOnce = 2
	// waitingMost bounds the line: well below a second of work, after which a shopper
	// is better told to come again.
	waitingMost = 16 * 1024
)

// gathering puts questions that come at the same time together, to be answered as
// one. There is no timer: a batch is whatever has gathered while earlier ones were
// under way. The zero value with answer set is ready.
type gathering[Q any] struct {
	answer func(batch []*Q) // writes the answers into the questions; must end by itself

	mu      sync.Mutex
	waiting []waiter[Q]
	flying  int // goroutines that answer; each ends when nobody waits
}

type waiter[Q any] struct {
	q    *Q
	done chan struct{} // closed when q has its answer
}

// ask returns when q has its answer. On an error q belongs to the batch that it is
// in, and must not be read.
func (g *gathering[Q]) ask(ctx context.Context, q *Q) error {
	w := waiter[Q]{q, make(chan struct{})}
	g.mu.Lock()
	if len(g.waiting) >= waitingMost {
		g.mu.Unlock()
		return errBusy
	}
	g.waiting = append(g.waiting, w)
	if g.flying < batchesAtOnce {
		g.flying++
		go g.fly()
	}
	g.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fly answers batches until nobody waits.
func (g *gathering[Q]) fly() {
	for {
		next := g.next()
		if len(next) == 0 {
			return
		}
		batch := make([]*Q, len(next))
		for i, w := range next {
			batch[i] = w.q
		}
		g.answer(batch)
		for _, w := range next {
			close(w.done)
		}
	}
}

// next takes who waits longest; when nobody does, the goroutine that asks is not
// counted any more.
func (g *gathering[Q]) next() []waiter[Q] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), batchMost)
	if n == 0 {
		g.flying--
		return nil
	}
	next := append([]waiter[Q](nil), g.waiting[:n]...) // copied, for the rest moves up
	rest := copy(g.waiting, g.waiting[n:])
	clear(g.waiting[rest:])
	g.waiting = g.waiting[:rest]
	return next
}
