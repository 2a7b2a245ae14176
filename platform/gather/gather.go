// Package gather puts questions that come at the same time together, to be
// answered as one: a round trip, a statement or a synced write for a crowd costs
// little more than for one of it. There is no timer: a batch is whatever has
// gathered while earlier ones were under way, so whoever comes alone never waits.
package gather

import (
	"context"
	"errors"
	"sync"
)

// ErrBusy says that the line is full.
var ErrBusy = errors.New("gather: too many are waiting")

// Line gathers questions. Set Answer and the bounds, then use it; safe for
// concurrent use.
type Line[Q any] struct {
	// Answer writes the answers into a batch of questions. It must end by itself.
	Answer func(batch []*Q)
	// Most bounds a batch.
	Most int
	// AtOnce are how many batches are under way at the same time: with two, one is
	// put together while the other waits for its store.
	AtOnce int
	// Waiting bounds the line. It should be well below a second of work, after
	// which whoever asks is better told to come again.
	Waiting int

	mu      sync.Mutex
	waiting []waiter[Q]
	flying  int // goroutines that answer; each ends when nobody waits
}

type waiter[Q any] struct {
	q    *Q
	done chan struct{} // closed when q has its answer
}

// Ask returns when q has its answer, or with ErrBusy or ctx's error. On an error q
// belongs to the batch that it is in, and must not be read.
func (l *Line[Q]) Ask(ctx context.Context, q *Q) error {
	w := waiter[Q]{q, make(chan struct{})}
	l.mu.Lock()
	if len(l.waiting) >= l.Waiting {
		l.mu.Unlock()
		return ErrBusy
	}
	l.waiting = append(l.waiting, w)
	if l.flying < l.AtOnce {
		l.flying++
		go l.fly()
	}
	l.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fly answers batches until nobody waits.
func (l *Line[Q]) fly() {
	for {
		next := l.next()
		if len(next) == 0 {
			return
		}
		batch := make([]*Q, len(next))
		for i, w := range next {
			batch[i] = w.q
		}
		l.Answer(batch)
		for _, w := range next {
			close(w.done)
		}
	}
}

// next takes who waits longest; when nobody does, the goroutine that asks is not
// counted any more.
func (l *Line[Q]) next() []waiter[Q] {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.waiting), l.Most)
	if n == 0 {
		l.flying--
		return nil
	}
	next := append([]waiter[Q](nil), l.waiting[:n]...) // copied, for the rest moves up
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	return next
}
