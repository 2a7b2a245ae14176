package payment

import (
	"fmt"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// happening is one thing that can happen to an order and its money.
type happening string

const (
	started     happening = "start"           // the shopper requests a payment
	paid        happening = "pay"             // and pays at the bank, which sends no callback yet
	takenAgain  happening = "take again"      // the bank takes the money once more, even of a closed payment
	calledBack  happening = "callback"        // the bank reports everything it took; a repeated report is a duplicate
	queried     happening = "query"           // we query the bank about the open payment
	canceled    happening = "cancel"          // the shopper cancels, to the end of the protocol
	claimedOnly happening = "claim"           // the shopper cancels and the process dies after the claim
	expired     happening = "expire"          // the deadline passes, to the end of the protocol
	givenBack   happening = "refund"          // the due refunds are requested
	backRefused happening = "refund refused"  // from now on the bank fails every refund
	backUnheard happening = "refund unheard"  // the due refunds are requested, and the bank's answers lost
	backCalled  happening = "refund callback" // the bank reports every refund that it ended
)

// account is the model of one order's money: what our rows must contain after
// each event, and what the bank has.
type account struct {
	no    ids.ID
	user  int64
	order []happening

	status       string
	claimed, due bool
	backup       bool         // the item has units for late money
	retaken      bool         // and the order got one
	payment      string       // our row: "", created, closed, captured
	paymentNo    ids.ID       // read once there is one
	bank         string       // "", open, closed, captured
	taken        int          // movements at the bank
	settled      map[int]bool // which of them are in our ledger
	excess       int          // how many of these have to be refunded
	back, failed int          // how many of these were refunded, and how many never will be
	bankBack     int          // refunds at the bank, which we may not have heard of
	bankFailed   int
	refuses      bool
}

// settle is the effect of one movement, the first time that we learn of it.
func (a *account) settle(movement int) {
	if a.settled[movement] {
		return
	}
	a.settled[movement] = true
	a.payment = "captured"
	if a.status == orderevent.StatusPending {
		a.status, a.claimed = orderevent.StatusPaid, false
	} else if a.status == orderevent.StatusClosed && a.backup {
		a.status, a.retaken = orderevent.StatusPaid, true
	} else {
		a.excess++
	}
}

// end is the closing protocol after the claim: the payment is closed at the
// bank first, and money that was faster pays the order.
func (a *account) end() {
	if a.payment == "created" {
		if a.bank == "captured" {
			a.settle(0)
			return
		}
		a.bank, a.payment = "closed", "closed"
	}
	a.status, a.claimed = orderevent.StatusClosed, false
}

// request asks the bank for every refund that we have not heard of. Of a repeated
// request the bank returns the outcome of the first.
func (a *account) request() {
	if open := a.excess - a.bankBack - a.bankFailed; a.refuses {
		a.bankFailed += open
	} else {
		a.bankBack += open
	}
}

// apply is design.md's order and payment machines, with the money beside them.
func (a *account) apply(what happening) {
	pending := a.status == orderevent.StatusPending
	switch what {
	case started:
		if pending && !a.claimed && !a.due && a.payment == "" {
			a.payment, a.bank = "created", "open"
		}
	case paid:
		if a.bank == "open" {
			a.bank, a.taken = "captured", a.taken+1
		}
	case takenAgain:
		if a.bank != "" {
			a.bank, a.taken = "captured", a.taken+1
		}
	case calledBack:
		for i := range a.taken {
			a.settle(i)
		}
	case queried:
		if a.payment == "created" && a.bank == "captured" {
			a.settle(0)
		}
	case canceled:
		if pending && !a.claimed {
			a.end()
		}
	case claimedOnly:
		a.claimed = a.claimed || pending
	case expired:
		a.due = true
		if pending && !a.claimed {
			a.end()
		}
	case givenBack:
		a.request()
		a.back, a.failed = a.bankBack, a.bankFailed
	case backUnheard:
		a.request()
	case backCalled:
		a.back, a.failed = a.bankBack, a.bankFailed
	case backRefused:
		a.refuses = a.refuses || a.bank != ""
	}
}

// row is what the database must contain, in the format of rows.
func (a *account) row() string {
	version := 1
	if a.status != orderevent.StatusPending {
		version = 2
	}
	if a.retaken {
		version = 3
	}
	reasons := ""
	switch {
	case a.excess > 0 && a.status == orderevent.StatusPaid:
		reasons = outcomeDuplicate
	case a.excess > 0:
		reasons = outcomeLate
	}
	return fmt.Sprintf("%s v%d history %d payment %s captures %d refunds %d back %d failed %d %s",
		a.status, version, version-1, a.payment, len(a.settled), a.excess, a.back, a.failed, reasons)
}
