// Package batch coalesces questions that arrive at the same time into one answer:
// a round trip, a statement or a synced write for a crowd costs little more than
// for one caller. There is no timer: a batch is what has arrived while earlier
// batches were being answered, so a single caller never waits for others.
package batch

import (
	"context"
	"errors"
	"sync"
)

// ErrBusy means that MaxWaiting callers wait already.
var ErrBusy = errors.New("batch: too many callers wait")

// Coalescer answers questions in batches. Set Answer and the bounds, then use it;
// safe for concurrent use.
type Coalescer[Q any] struct {
	// Answer writes the answers into a batch of questions. It must end by itself.
	Answer func(batch []*Q)
	// MaxBatch bounds a batch.
	MaxBatch int
	// Parallel is how many batches are answered at the same time: with two, one
	// fills while the other waits for its store.
	Parallel int
	// MaxWaiting bounds the queue. It should be well below a second of work; a
	// caller that would wait longer is better refused and comes again.
	MaxWaiting int

	mu      sync.Mutex
	waiting []waiter[Q]
	workers int // goroutines that answer; each ends when the queue is empty
}

type waiter[Q any] struct {
	q    *Q
	done chan struct{} // closed when q has its answer
}

// Ask returns when q has its answer, or with ErrBusy or ctx's error. On an error q
// belongs to the batch that it is in, and must not be read.
func (c *Coalescer[Q]) Ask(ctx context.Context, q *Q) error {
	w := waiter[Q]{q, make(chan struct{})}
	c.mu.Lock()
	if len(c.waiting) >= c.MaxWaiting {
		c.mu.Unlock()
		return ErrBusy
	}
	c.waiting = append(c.waiting, w)
	if c.workers < c.Parallel {
		c.workers++
		go c.work()
	}
	c.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// work answers batches until the queue is empty.
func (c *Coalescer[Q]) work() {
	for {
		next := c.take()
		if len(next) == 0 {
			return
		}
		batch := make([]*Q, len(next))
		for i, w := range next {
			batch[i] = w.q
		}
		c.Answer(batch)
		for _, w := range next {
			close(w.done)
		}
	}
}

// take returns the questions that wait longest. When there are none it counts the
// calling worker out, under the same lock, so that the next Ask starts another.
func (c *Coalescer[Q]) take() []waiter[Q] {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), c.MaxBatch)
	if n == 0 {
		c.workers--
		return nil
	}
	next := append([]waiter[Q](nil), c.waiting[:n]...) // copied, for the rest moves up
	rest := copy(c.waiting, c.waiting[n:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	return next
}
