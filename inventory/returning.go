package inventory

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

const (
	// mostReturnWithin is the longest that an operator may let units of ended
	// orders wait, and what every check allows them: verify runs without the
	// settings of the servers.
	mostReturnWithin = time.Minute
	// returnSlack is added to it for the event that announces the end.
	returnSlack = 5 * time.Second
	// leastReturnShare is the share of the bound that every unit waits: by then
	// each instance knows the shopper's pause, and paths issued before it are
	// refused.
	leastReturnShare = 4
	// mostReturning bounds the units that wait, some 100 bytes each. Further ones
	// return immediately.
	mostReturning = 1 << 16
)

// returning is the end of a closed or refunded order that reaches Redis at a time of its own.
type returning struct {
	at   time.Time
	item Item
	hint hint
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

// postpone keeps closed and refunded orders until a random moment within the bound
// after their end, so that a client that closes one, or asks for its refund, cannot be
// the first to know that its unit is on sale again. It returns the hints that do not wait.
func (s *Service) postpone(item Item, hints []hint) (now []hint, err error) {
	within := s.cfg.UnitsReturnWithin
	if within == 0 || !waits(hints[0].status) {
		return hints, nil
	}
	k := &s.keepers
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return nil, errStopping
	}
	at := time.Now()
	for len(hints) > 0 && len(k.later) < mostReturning {
		after := within/leastReturnShare + rand.N(within-within/leastReturnShare) //nolint:gosec // not a secret: the generator cannot be predicted from outside
		heap.Push(&k.later, returning{at: at.Add(after), item: item, hint: hints[0]})
		hints = hints[1:]
	}
	select {
	case k.sooner <- struct{}{}:
	default:
	}
	return hints, nil
}

// returnLater puts postponed ends on the work lists when their time has come,
// until ctx ends.
func (s *Service) returnLater(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.keepers.sooner:
		case <-timer.C:
		}
		if next, waits := s.returnDue(time.Now()); waits { //nolint:contextcheck // see startKeeper
			timer.Reset(time.Until(next))
		}
	}
}

// returnDue puts what is due on the work lists, and returns when the next is.
func (s *Service) returnDue(now time.Time) (next time.Time, waits bool) {
	k := &s.keepers
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.later) > 0 {
		r := k.later[0]
		if r.at.After(now) {
			return r.at, true
		}
		heap.Pop(&k.later)
		s.onList(r.item, []hint{r.hint}) //nolint:contextcheck // see startKeeper
	}
	return time.Time{}, false
}

// waits reports whether the units of orders with this status return at a random
// moment. A refused order's shopper never had a unit.
func waits(status string) bool {
	return status == orderevent.StatusClosed || status == orderevent.StatusRefunded
}

// statusReturning is the status of an order that waits, and whose units may not have
// returned yet.
const statusReturning = "returning"

// statuses returns the status of each number that has an order row. Units may wait
// for so long after the end of their order, unless they return at once.
func (s *Service) statuses(ctx context.Context, itemID int64, nos []ids.ID, wait time.Duration) (map[ids.ID]string, error) {
	status, err := s.deps.Books.Statuses(ctx, nos)
	if err != nil {
		return nil, fmt.Errorf("inventory: read orders of item %d: %w", itemID, err)
	}
	var recently []ids.ID
	for no, is := range status {
		if waits(is) && s.cfg.UnitsReturnWithin > 0 {
			recently = append(recently, no)
		}
	}
	if len(recently) == 0 {
		return status, nil
	}
	recent, err := s.deps.Books.EndedWithin(ctx, recently, wait+returnSlack)
	if err != nil {
		return nil, fmt.Errorf("inventory: read when orders of item %d ended: %w", itemID, err)
	}
	for no := range recent {
		status[no] = statusReturning
	}
	return status, nil
}
