package sandbox

// Behaviour is how the bank treats one payment.
type Behaviour string

// The behaviours. All but the first are faults that real banks have had.
const (
	Normal      Behaviour = "normal"
	Duplicate   Behaviour = "duplicate"    // the callback is sent twice, at the same moment
	WrongAmount Behaviour = "wrong_amount" // the callback states one unit too much; a query returns the true amount
	Underpaid   Behaviour = "underpaid"    // one unit too little was really taken, and every answer says so
	Late        Behaviour = "late"         // the money moves now, the callback is sent delay_seconds later
	Never       Behaviour = "never"        // the money moves, no callback is sent
	RefundFails Behaviour = "refund_fails" // a refund of this payment fails permanently
)

// Valid reports whether b is one of the behaviours.
func (b Behaviour) Valid() bool {
	switch b {
	case Normal, Duplicate, WrongAmount, Underpaid, Late, Never, RefundFails:
		return true
	default:
		return false
	}
}

// maxDelaySeconds bounds a late callback: a day is longer than any order lives.
const maxDelaySeconds = 86_400
