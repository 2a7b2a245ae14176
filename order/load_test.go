package order

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

func TestLoaderSharesQueries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queries, asked := 0, 0
		var mu sync.Mutex
		l := newLoader(func(_ context.Context, nos []ids.ID) (map[ids.ID]orderevent.Order, error) {
			mu.Lock()
			queries++
			asked += len(nos)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the bubble's clock: a slow Postgres
			found := make(map[ids.ID]orderevent.Order)
			for _, no := range nos {
				found[no] = orderevent.Order{No: no}
			}
			return found, nil
		})
		nos := make([]ids.ID, 300)
		for i := range nos {
			nos[i] = ids.New()
		}
		var readers sync.WaitGroup
		for i := range 3000 {
			readers.Go(func() {
				no := nos[i%len(nos)]
				if o, ok, err := l.load(t.Context(), no); err != nil || !ok || o.No != no {
					t.Errorf("%v, %v, %v", o.No, ok, err)
				}
			})
		}
		readers.Wait()
		// The first two find no other reader waiting; all others share.
		if queries > 8 || asked > 2*len(nos) {
			t.Errorf("%d queries for %d numbers answered 3000 readers of 300 orders", queries, asked)
		}
	})
}

func TestLoaderOutlivesTheReaderThatRan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLoader(func(ctx context.Context, nos []ids.ID) (map[ids.ID]orderevent.Order, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return map[ids.ID]orderevent.Order{nos[0]: {No: nos[0]}}, nil
			}
		})
		no := ids.New()
		leaving, leave := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() { _, _, _ = l.load(leaving, no) }) // runs the query
		synctest.Wait()
		both.Go(func() {
			if _, ok, err := l.load(t.Context(), no); err != nil || !ok {
				t.Errorf("%v, %v", ok, err)
			}
		})
		leave()
		both.Wait()
	})
}

func TestLoaderReturnsFailureToEveryReader(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	l := newLoader(func(context.Context, []ids.ID) (map[ids.ID]orderevent.Order, error) { return nil, down })
	if _, _, err := l.load(t.Context(), ids.New()); !errors.Is(err, down) {
		t.Error(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	l.slots <- struct{}{}
	l.slots <- struct{}{}
	if _, _, err := l.load(gone, ids.New()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestGetRemembersMissingOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	no := ids.NewFor(1)
	for range 50 {
		if _, ok, err := s.Get(t.Context(), no); ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
	}
	// At most one query per second of the clock, however slow this machine is.
	if loads := counter(t, s.metrics.loads); loads > 10 {
		t.Errorf("50 reads of a missing order queried Postgres %.0f times", loads)
	}
	// A row that appears is found in the cache, even if its absence is remembered.
	m := grants(s.item(1), 1)
	m.Grants[0].No = no
	s.deliver(m)
	if _, ok, err := s.Get(t.Context(), no); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}
