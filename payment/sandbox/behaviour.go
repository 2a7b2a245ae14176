package sandbox

import "slices"

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
	// A refund of this payment succeeds, and delay_seconds later the money comes back to the merchant.
	RefundBounces Behaviour = "refund_bounces"
	// The money moves now, and for delay_seconds the merchant learns nothing of it: no callback is sent, and no call
	// about this payment is answered.
	Silent Behaviour = "silent"
	// The shopper's bank takes the money back delay_seconds after the payment, and that long afterwards the merchant wins
	// it or has lost it. Only companies have chargebacks, the bank's own protocol has none.
	ChargebackWon  Behaviour = "chargeback_won"
	ChargebackLost Behaviour = "chargeback_lost"
)

// behaviours are all of them, as the page lists them.
var behaviours = []Behaviour{Normal, Duplicate, WrongAmount, Underpaid, Late, Never, Silent, RefundFails, RefundBounces, ChargebackWon, ChargebackLost}

// Valid reports whether b is one of the behaviours.
func (b Behaviour) Valid() bool { return slices.Contains(behaviours, b) }

// maxDelaySeconds bounds a late callback: a day is longer than any order lives.
const maxDelaySeconds = 86_400
