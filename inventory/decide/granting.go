package decide

import (
	"sync"
	"time"
)

// granting records when this process got grants of one item to publish.
type granting struct {
	// deciding is read-locked while Redis decides. A Load that locks it once, after its fence, has seen every grant
	// made before.
	deciding sync.RWMutex
	mu       sync.Mutex
	last     time.Time // when grants were last returned to a publisher
}

// granting returns the record of an item; without SingleInstance it is never read, and all items share one.
func (s *Service) granting(itemID int64) *granting {
	if !s.SingleInstance {
		return &s.unasked
	}
	if g, ok := s.Granted.Load(itemID); ok {
		return g.(*granting) //nolint:errcheck // the map holds nothing else
	}
	g, _ := s.Granted.LoadOrStore(itemID, new(granting))
	return g.(*granting) //nolint:errcheck // as above
}

// NotePublishing records that the caller is about to publish grants of an item.
func (s *Service) NotePublishing(itemID int64) {
	g := s.granting(itemID)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = time.Now()
}

// LastPublishing returns when grants of an item made before the call were last returned to a publisher; zero if
// never.
func (s *Service) LastPublishing(itemID int64) time.Time {
	g := s.granting(itemID)
	g.deciding.Lock() // waits for the decisions under way, at most a timeout of Redis
	defer g.deciding.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}
