package order

import (
	"stampede/order/orderevent"
)

// happening is one thing that can happen to an order.
type happening string

const (
	grantCame      happening = "grant"          // the writer gets the grant, or its message again
	grantAgain     happening = "grant again"    // the hold sweeper sent it again, in another message
	grantLate      happening = "late grant"     // the grant arrives under an epoch that a Load has replaced
	rivalCame      happening = "rival grant"    // another number of the same user, for the same item
	moneyCame      happening = "capture"        // a capture is settled
	moneyCameAgain happening = "second capture" // and another one
	cancelWanted   happening = "cancel"         // the shopper cancels: the first step
	cancelEnds     happening = "cancel ends"    // the last step of a cancellation
	deadlineCame   happening = "deadline"       // the deadline passes and the sweeper claims what is due
	expiryEnds     happening = "expiry ends"    // the last step of an expiry
	claimLapses    happening = "claim lapses"   // the process that claimed the order died
)

// course is the model of one order: what its row must say after each event.
type course struct {
	status, reason string // "" before there is a row
	history        []string
	claimed, due   bool
	rival          string // the other number's row
	rivalReason    string
}

// enters moves the order to a status, which design.md allows from pending only.
func (c *course) enters(status, reason string) bool {
	if c.status != orderevent.StatusPending {
		return false
	}
	c.status, c.reason, c.claimed = status, reason, false
	c.history = append(c.history, status)
	return true
}

// live reports whether one of the user's two numbers holds a unit.
func (c *course) live() bool { return orderevent.Live(c.status) || orderevent.Live(c.rival) }

// write is what the writer does with a grant of one of the two numbers.
func (c *course) write(row, reason *string, refusal string) {
	switch {
	case *row != "": // known: a success again, and never a change
	case refusal != "":
		*row, *reason = orderevent.StatusRefused, refusal
	case c.live():
		*row, *reason = orderevent.StatusRefused, orderevent.ReasonDuplicate
	default:
		*row = orderevent.StatusPending
	}
}

// apply is the state machine of design.md §5. It reports whether the event had
// an effect, for events whose answer says so.
func (c *course) apply(what happening) bool {
	switch what {
	case grantCame, grantAgain:
		c.write(&c.status, &c.reason, "")
	case grantLate:
		c.write(&c.status, &c.reason, orderevent.ReasonInterrupted)
	case rivalCame:
		c.write(&c.rival, &c.rivalReason, "")
	case moneyCame, moneyCameAgain:
		return c.enters(orderevent.StatusPaid, "")
	case cancelWanted:
		if c.status != orderevent.StatusPending || c.claimed {
			return false
		}
		c.claimed = true
	case deadlineCame:
		if c.status != orderevent.StatusPending {
			return false
		}
		c.due = true
		if c.claimed {
			return false
		}
		c.claimed = true
	case cancelEnds:
		return c.claimed && c.enters(orderevent.StatusClosed, orderevent.ReasonCanceled)
	case expiryEnds:
		return c.claimed && c.enters(orderevent.StatusClosed, orderevent.ReasonTimeout)
	case claimLapses:
		c.claimed = false
	}
	return true
}
