package batch_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"stampede/platform/base/batch"
)

type question struct{ in, out int }

// TestCrowdIsAnsweredInBatches checks that callers queue while the first two
// batches are in progress, and are then answered together.
func TestCrowdIsAnsweredInBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var mu sync.Mutex
		var sizes []int
		l := &batch.Coalescer[question]{MaxBatch: 50, Parallel: 2, MaxWaiting: 1000, Answer: func(batch []*question) {
			<-gate
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, len(batch))
			for _, q := range batch {
				q.out = 2 * q.in
			}
		}}
		var all sync.WaitGroup
		ask := func(i int) {
			all.Go(func() {
				q := question{in: i}
				if err := l.Ask(t.Context(), &q); err != nil || q.out != 2*i {
					t.Errorf("%d: %d, %v", i, q.out, err)
				}
			})
		}
		ask(1)
		synctest.Wait()
		ask(2)
		synctest.Wait()
		for i := range 98 {
			ask(i + 3)
		}
		synctest.Wait()
		close(gate)
		all.Wait()
		sum, largest := 0, 0
		for _, n := range sizes {
			sum, largest = sum+n, max(largest, n)
		}
		if sum != 100 || largest != 50 || len(sizes) > 4 {
			t.Errorf("batches of %v; want two of one, then no more than needed of at most 50", sizes)
		}
	})
}

func TestFullQueueRefusesAndCancelledCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		l := &batch.Coalescer[question]{MaxBatch: 1, Parallel: 1, MaxWaiting: 1, Answer: func([]*question) { <-gate }}
		var all sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		want := func(ctx context.Context, err error) {
			all.Go(func() {
				if got := l.Ask(ctx, new(question)); !errors.Is(got, err) {
					t.Errorf("%v, want %v", got, err)
				}
			})
			synctest.Wait()
		}
		want(t.Context(), nil)           // in progress
		want(ctx, context.Canceled)      // waits
		want(t.Context(), batch.ErrBusy) // the queue is full
		leave()
		synctest.Wait()
		close(gate)
		all.Wait()
		want(t.Context(), nil) // the cancelled caller does not block the queue
		all.Wait()
	})
}
