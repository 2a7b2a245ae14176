package payment

import (
	"fmt"
	"strings"

	"stampede/order"
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
	bought      happening = "buy"             // start, pay, callback
	partAsked   happening = "ask for a part"  // an operator refunds askedPart of the price
	wholeAsked  happening = "ask for all"     // or what is left of it
)

// askedPart is what an operator refunds in part; three of them exceed the price.
const askedPart = 40

// askedFor is a refund that an operator asked for.
type askedFor struct {
	amount int64
	bank   string // "", succeeded, failed
	status string // requested, succeeded, failed
}

// account is the model of one order's money: what our rows must contain after
// each event, and what the bank has.
type account struct {
	no    ids.ID
	user  int64
	order []happening

	status       string
	version      int // raised by each change of the status
	asked        []askedFor
	claimed, due bool
	backup       bool         // the item has units for late money
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
	switch {
	case a.status == orderevent.StatusPending:
		a.claimed = false
		a.to(orderevent.StatusPaid)
	case a.status == orderevent.StatusClosed && a.backup:
		a.to(orderevent.StatusPaid)
	default:
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
	a.claimed = false
	a.to(orderevent.StatusClosed)
}

func (a *account) to(status string) { a.status, a.version = status, a.version+1 }

// sum adds up the asked refunds in a state, "" for all.
func (a *account) sum(status string) (sum int64) {
	for _, r := range a.asked {
		if status == "" || r.status == status {
			sum += r.amount
		}
	}
	return sum
}

// follow moves the order to what its refunds make of it.
func (a *account) follow() {
	if a.status == orderevent.StatusPaid && a.sum("") == walkPrice {
		a.to(orderevent.StatusRefunding)
	}
	if a.status == orderevent.StatusRefunding && a.sum("failed") > 0 {
		a.to(orderevent.StatusRefundFailed)
	} else if a.status == orderevent.StatusRefunding && a.sum("succeeded") == walkPrice {
		a.to(orderevent.StatusRefunded)
	}
}

// ask is an operator's request for a refund.
func (a *account) ask(amount int64) {
	if left := walkPrice - a.sum(""); a.status == orderevent.StatusPaid && amount <= left {
		a.asked = append(a.asked, askedFor{amount: amount, status: "requested"})
		a.follow()
	}
}

// request asks the bank for every refund that we have not heard of. Of a repeated
// request the bank returns the outcome of the first.
func (a *account) request() {
	if open := a.excess - a.bankBack - a.bankFailed; a.refuses {
		a.bankFailed += open
	} else {
		a.bankBack += open
	}
	for i := range a.asked {
		if r := &a.asked[i]; r.bank == "" {
			r.bank = map[bool]string{false: "succeeded", true: "failed"}[a.refuses]
		}
	}
}

// hear is our learning of every refund that the bank ended.
func (a *account) hear() {
	a.back, a.failed = a.bankBack, a.bankFailed
	for i := range a.asked {
		if r := &a.asked[i]; r.bank != "" && r.status == "requested" {
			r.status = r.bank
			a.follow()
		}
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
		a.hear()
	case backUnheard:
		a.request()
	case backCalled:
		a.hear()
	case partAsked:
		a.ask(askedPart)
	case wholeAsked:
		a.ask(walkPrice - a.sum(""))
	case bought:
		for _, what := range []happening{started, paid, calledBack} {
			a.apply(what)
		}
	case backRefused:
		a.refuses = a.refuses || a.bank != ""
	}
}

// row is what the database must contain, in the format of rows.
func (a *account) row() string {
	var reasons []string
	switch {
	case a.excess > 0 && a.status == orderevent.StatusClosed:
		reasons = append(reasons, outcomeLate)
	case a.excess > 0:
		reasons = append(reasons, outcomeDuplicate)
	}
	back, failed := a.back, a.failed
	for _, r := range a.asked {
		switch r.status {
		case "succeeded":
			back++
		case "failed":
			failed++
		}
	}
	if len(a.asked) > 0 {
		reasons = append(reasons, order.RefundByOperator)
	}
	return fmt.Sprintf("%s v%d history %d payment %s captures %d refunds %d back %d failed %d %s",
		a.status, a.version, a.version-1, a.payment, len(a.settled), a.excess+len(a.asked), back, failed, strings.Join(reasons, ","))
}

// kept is what the bank must have of the shopper's money when every refund has ended.
func (a *account) kept() int64 {
	kept := int64(a.failed) * walkPrice
	if len(a.settled) > a.excess { // one capture paid the order
		kept += walkPrice - a.sum("succeeded")
	}
	return kept
}

// failures counts the refunds that the bank failed.
func (a *account) failures() int {
	n := a.failed
	for _, r := range a.asked {
		if r.status == "failed" {
			n++
		}
	}
	return n
}
