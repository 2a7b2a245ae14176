package order

import (
	"sync"
	"testing"

	"stampede/platform/base/ids"
)

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

// A query that fails is an error of every reader that waits for it, and of none an
// order that does not exist.
func TestFailedReadIsNoMissingOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.db.Close()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			if _, ok, err := s.Get(t.Context(), ids.NewFor(1)); ok || err == nil {
				t.Errorf("%v, %v", ok, err)
			}
		})
	}
	readers.Wait()
}
