package search

import (
	"bytes"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
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

// timeSpan is the times from from on and before to; the zero time bounds nothing.
type timeSpan struct{ from, to time.Time }

// given reports whether the span bounds anything.
func (t timeSpan) given() bool { return !t.from.IsZero() || !t.to.IsZero() }

// has reports whether the span contains a time.
func (t timeSpan) has(at time.Time) bool {
	return !at.Before(t.from) && (t.to.IsZero() || at.Before(t.to))
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

// numbers returns the span of numbers in which the orders created within a span of
// time lie.
func (t timeSpan) numbers() numberSpan {
	n := everyNumber
	if !t.from.IsZero() {
		n.since = ids.Lowest(t.from.Add(-writtenWithin))
	}
	if !t.to.IsZero() {
		n.before = ids.Lowest(t.to.Add(clocksDiffer))
	}
	return n
}

// onSale returns the span of numbers in which the orders of what was on sale from
// opens to closes lie: they were minted while it was.
func onSale(opens, closes time.Time) numberSpan {
	return numberSpan{since: ids.Lowest(opens.Add(-mintedAround)), before: ids.Lowest(closes.Add(mintedAround))}
}
