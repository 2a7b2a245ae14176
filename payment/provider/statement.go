package provider

import (
	"errors"
	"iter"
	"time"

	"stampede/platform/base/ids"
)

// Day is a day of which a provider states what moved: its own where Profile.Zone says so,
// else the shop's. It holds From and not To.
type Day struct{ From, To time.Time }

// DayOf is the day of a zone that holds a time.
func DayOf(at time.Time, zone *time.Location) Day {
	y, m, d := at.In(zone).Date()
	from := time.Date(y, m, d, 0, 0, 0, 0, zone)
	return Day{From: from, To: from.AddDate(0, 0, 1)}
}

// Date is the day's date in the zone that it begins in.
func (d Day) Date() string { return d.From.Format(time.DateOnly) }

// Movement is the kind of a movement of money.
type Movement string

// The movements. They are also the kinds of the ledger's rows.
const (
	Paid     Movement = "capture" // from a shopper to us
	PaidBack Movement = "refund"  // from us to a shopper
	// ChargedBack is money that a shopper's bank took from us, and, below 0, gave back.
	ChargedBack Movement = "chargeback"
)

// Line is a movement of money in a provider's books. Lines with the same kind and
// transaction belong together: their amounts add up, so that a refund which was made and
// taken back is 0.
type Line struct {
	Kind Movement
	// PaymentNo and RefundNo are our numbers; zero where the provider does not state them,
	// as for a refund that an operator made at the provider's desk.
	PaymentNo, RefundNo ids.ID
	// Transaction is the movement's name in callbacks: Capture.Transaction, or that of a
	// RefundStatus, or our refund number where the provider has none.
	Transaction string
	Amount      int64 // minor units; negative where a movement was taken back
	Currency    string
	At          time.Time
}

// Lines are the lines of a statement. They end with the first error.
type Lines = iter.Seq2[Line, error]

// ErrNotReady means that the provider has not made this day's statement yet.
var ErrNotReady = errors.New("provider: the statement is not made yet")

// LinesOf are the lines that read passes on, until pass returns false for no more of them;
// then read returns, and what it returns is not asked for.
func LinesOf(read func(pass func(Line) bool) error) Lines {
	return func(yield func(Line, error) bool) {
		over := false
		err := read(func(l Line) bool {
			over = !yield(l, nil)
			return !over
		})
		if err != nil && !over {
			yield(Line{}, err)
		}
	}
}
