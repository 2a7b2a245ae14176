package order

import (
	"bytes"
	"context"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/seckill/seckillevent"
)

// numberSpan is the numbers from since on and below before. A number carries the time
// it was minted at, so most filters of a list bound the numbers: the scan begins
// there instead of passing every order since, and the table needs no index by item,
// session or time, which every order would have to pay for.
type numberSpan struct{ since, before ids.ID }

var everyNumber = numberSpan{before: httpx.LastNumber}

// within returns the numbers that are in both.
func (n numberSpan) within(other numberSpan) numberSpan {
	if bytes.Compare(other.since[:], n.since[:]) > 0 {
		n.since = other.since
	}
	if bytes.Compare(other.before[:], n.before[:]) < 0 {
		n.before = other.before
	}
	return n
}

// only is the span of one number.
func only(no ids.ID) numberSpan {
	next := no
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			break
		}
	}
	return numberSpan{since: no, before: next}
}

const (
	// mintedAround is how far outside its sale an item's numbers may have been
	// minted: paths are handed out minutes before the opening, by machines whose
	// clocks differ. It makes a list read that much more of the table, which is
	// little.
	mintedAround = time.Hour
	// writtenWithin is the longest time between the minting of a number and its
	// order: a path lives for minutes, and the order writer may have been behind.
	writtenWithin = time.Hour
	// clocksDiffer is how much later than its order a number may appear to have
	// been minted.
	clocksDiffer = time.Minute
)

// createdIn returns the span of numbers in which the orders created between
// from and to lie; nil has no bound.
func createdIn(from, to *time.Time) numberSpan {
	n := everyNumber
	if from != nil {
		n.since = firstAt(from.Add(-writtenWithin))
	}
	if to != nil {
		n.before = firstAt(to.Add(clocksDiffer))
	}
	return n
}

// Sales is the plan: what was on sale, when, and by which rules.
type Sales interface {
	// SaleOf returns what was on sale as an item; known is false if there is no such
	// item.
	SaleOf(ctx context.Context, item int64) (sale seckillevent.Sale, known bool, err error)
	// WhenOnSale returns the first opening and the last closing of the sessions
	// that match the item, the session and the activity, where nil matches any;
	// known is false if there is none.
	WhenOnSale(ctx context.Context, item, session, activity *int64) (opens, closes time.Time, known bool, err error)
	// RefundRule returns for how long after paying a shopper of the activity may
	// refund an order, 0 for never, and whether the units are then written off.
	RefundRule(ctx context.Context, activity int64) (within time.Duration, writeOff bool, err error)
}

// onSale returns the span of numbers in which the orders of an item, a session
// or an activity lie: they were minted while it was on sale. nil matches any;
// something that was never on sale has no bounds.
func (s *Service) onSale(ctx context.Context, item, session, activity *int64) (numberSpan, error) {
	if item == nil && session == nil && activity == nil {
		return everyNumber, nil
	}
	opens, closes, known, err := s.peers.Sales.WhenOnSale(ctx, item, session, activity)
	if err != nil || !known {
		return everyNumber, err
	}
	return numberSpan{since: firstAt(opens.Add(-mintedAround)), before: firstAt(closes.Add(mintedAround))}, nil
}

// firstAt sorts before every number that is minted at that time or later.
func firstAt(at time.Time) (no ids.ID) {
	ms := uint64(max(at.UnixMilli(), 0)) //nolint:gosec // not negative
	for i := range 6 {
		no[i] = byte(ms >> (40 - 8*i))
	}
	return no
}
