// Package disputeevent is the contract of order/dispute with the other modules:
// every change of a dispute. What was written is not in the events, because it may
// name people.
package disputeevent

import "stampede/platform/base/ids"

// Subjects on the EVENTS stream. The payload of each is Changed as JSON.
const (
	SubjectOpened   = "events.dispute.opened"   // by the shopper
	SubjectReplied  = "events.dispute.replied"  // by the shopper, to the shop
	SubjectAnswered = "events.dispute.answered" // by the shop
	SubjectClosed   = "events.dispute.closed"   // by the shop

	SubjectAll = "events.dispute.*"
)

// Statuses of a dispute.
const (
	StatusOpen     = "open"     // it waits for the shop
	StatusAnswered = "answered" // it waits for the shopper
	StatusClosed   = "closed"
)

// Outcomes of a closed dispute.
const (
	OutcomeRefund   = "refund"
	OutcomeNoRefund = "no_refund"
)

// Changed is a dispute after the change.
type Changed struct {
	DisputeNo ids.ID  `json:"dispute_no"`
	OrderNo   ids.ID  `json:"order_no"`
	UserID    int64   `json:"user_id,string"`
	Status    string  `json:"status"`
	Outcome   string  `json:"outcome,omitempty"`
	RefundNo  *ids.ID `json:"refund_no,omitempty"`
	Version   int32   `json:"version"` // rises with every change; an older one never replaces a newer
}
