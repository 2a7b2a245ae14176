// Package batch coalesces requests that arrive at the same time into one
// operation: a round trip, a statement or a synced write for a crowd costs
// little more than for one caller. There is no timer: a batch is whatever
// arrived while earlier batches were in progress, so a single caller never
// waits for others.
package batch

import (
	"context"
	"errors"
	"sync"
)

// ErrBusy means that MaxWaiting callers are already waiting.
var ErrBusy = errors.New("batch: too many callers are waiting")

// Coalescer answers questions in batches. Set Answer and the bounds, then use it;
// safe for concurrent use.
type Coalescer[Q any] struct {
	// Answer writes the answers into a batch of questions. It has no context,
	// so it must bound its own run time.
	Answer func(batch []*Q)
	// MaxBatch bounds a batch.
	MaxBatch int
	// Parallel is how many batches are in progress at the same time: with two,
	// one fills while the other waits for its store.
	Parallel int
	// MaxWaiting bounds the queue. It should be well below a second of work; it
	// is better to refuse a caller that would wait longer and let it retry.
	MaxWaiting int

	mu      sync.Mutex
	waiting []waiter[Q]
	workers int // running worker goroutines; each ends when the queue is empty
}

type waiter[Q any] struct {
	q    *Q
	done chan struct{} // closed when q is answered
}

// Ask returns when q is answered, or with ErrBusy or ctx's error. After an
// error q may still belong to a running batch and must not be read.
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

// take returns the questions that have waited longest. If there are none it
// decrements the worker count under the same lock, so that the next Ask starts
// another worker.
func (c *Coalescer[Q]) take() []waiter[Q] {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), c.MaxBatch)
	if n == 0 {
		c.workers--
		return nil
	}
	next := append([]waiter[Q](nil), c.waiting[:n]...) // copied, because the rest moves up
	rest := copy(c.waiting, c.waiting[n:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	return next
}
