package decide

import (
	"testing"
	"time"

	"stampede/inventory/stock"
	"stampede/platform/workshop/pgtest"
)

// A decision that is under way when the Load fences may be a grant.
func TestLoadSeesDecisionsUnderWay(t *testing.T) {
	t.Parallel()
	s := New(stock.NewStore(stock.Config{SingleInstance: true}, stock.Deps{}))
	g := s.granting(1)
	g.deciding.RLock()
	found := make(chan time.Time, 1)
	go func() { found <- s.LastPublishing(1) }()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		if g.deciding.TryRLock() { // fails once the Load is waiting
			g.deciding.RUnlock()
			return false
		}
		return true
	}, "the Load waits for the decision")
	at := time.Now()
	s.NotePublishing(1)
	g.deciding.RUnlock()
	if last := <-found; last.Before(at) {
		t.Errorf("the last grant was at %s, before %s", last, at)
	}
}
