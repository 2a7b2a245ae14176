package keep

import (
	"math/rand/v2"
	"time"

	"stampede/inventory/stock"
)

const (
	// leastReturnShare is the share of the bound that every unit waits: by then each instance knows the shopper's
	// pause, and paths issued before it are refused.
	leastReturnShare = 4
	// mostReturning bounds the units that wait, some 300 bytes each. Further ones return immediately.
	mostReturning = 1 << 16
)

// returning is the end of a closed or refunded order that reaches Redis at a time of its own.
type returning struct {
	item stock.Item
	hint Hint
}

// accept puts the ends that an event tells of on the work list of their item. Closed and refunded orders wait for a
// random moment within the bound after their end, so that a client that closes one, or asks for its refund, cannot be
// the first to know that its unit is on sale again.
func (s *Service) accept(item stock.Item, hints []Hint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errStopping
	}
	if within := s.UnitsReturnWithin; within > 0 && stock.ReturnsLater(hints[0].Status) {
		for len(hints) > 0 && len(s.later) < mostReturning {
			after := within/leastReturnShare + rand.N(within-within/leastReturnShare) //nolint:gosec // not a secret: the generator cannot be predicted from outside
			s.wait(after, item, hints[0])
			hints = hints[1:]
		}
	}
	if len(hints) > 0 {
		s.onList(item, hints...)
	}
	return nil
}

// wait puts a hint on its item's work list after a while. mu is held.
func (s *Service) wait(after time.Duration, item stock.Item, h Hint) {
	r := &returning{item, h}
	s.later[r] = time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, waits := s.later[r]; waits { // no stop has put it on the list
			delete(s.later, r)
			s.onList(item, h)
		}
	})
}
