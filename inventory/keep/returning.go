package keep

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"time"

	"stampede/inventory/stock"
	"stampede/platform/base/app"
)

const (
	// leastReturnShare is the share of the bound that every unit waits: by then each instance knows the shopper's
	// pause, and paths issued before it are refused.
	leastReturnShare = 4
	// mostReturning bounds the units that wait, some 100 bytes each. Further ones return immediately.
	mostReturning = 1 << 16
)

// returning is the end of a closed or refunded order that reaches Redis at a time of its own.
type returning struct {
	at   time.Time
	item stock.Item
	hint Hint
}

// returns is a heap, the earliest first.
type returns []returning

func (r returns) Len() int           { return len(r) }
func (r returns) Less(i, j int) bool { return r[i].at.Before(r[j].at) }
func (r returns) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }

// Push and Pop are heap.Interface.
func (r *returns) Push(x any) { *r = append(*r, x.(returning)) } //nolint:errcheck // heap.Push gets nothing else

func (r *returns) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	(*r)[last] = returning{}
	*r = (*r)[:last]
	return x
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
	heap.Push(&s.later, returning{at: time.Now().Add(after), item: item, hint: h})
	app.Kick(s.sooner)
}

// returnLater puts postponed ends on the work lists when their time has come, until ctx ends.
func (s *Service) returnLater(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.sooner:
		case <-timer.C:
		}
		if next, waits := s.returnDue(time.Now()); waits { //nolint:contextcheck // see startKeeper
			timer.Reset(time.Until(next))
		}
	}
}

// returnDue puts what is due on the work lists, and returns when the next is.
func (s *Service) returnDue(now time.Time) (next time.Time, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.later) > 0 {
		r := s.later[0]
		if r.at.After(now) {
			return r.at, true
		}
		heap.Pop(&s.later)
		s.onList(r.item, r.hint) //nolint:contextcheck // see startKeeper
	}
	return time.Time{}, false
}
