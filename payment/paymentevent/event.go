// Package paymentevent is the contract of payment with the other modules.
package paymentevent

import "stampede/platform/base/ids"

// Subjects on the EVENTS stream.
const (
	SubjectCaptured = "events.payment.captured" // money arrived for an order; payload Captured
	SubjectRefunded = "events.payment.refunded" // money went back; payload Refunded
	SubjectSurplus  = "events.payment.surplus"  // money arrived that pays no order, and will go back; payload Surplus
	SubjectClosed   = "events.payment.closed"   // a payment was closed at its provider without money; payload Closed

	SubjectRefundAwaiting = "events.payment.refund_awaiting" // a refund waits for another operator's approval; payload RefundAwaiting

	SubjectRefundFailed = "events.payment.refund_failed" // a refund will not be made unless an operator acts; payload RefundFailed
)

// Captured reports that the money of a payment arrived.
type Captured struct {
	PaymentNo ids.ID `json:"payment_no"`
	OrderNo   ids.ID `json:"order_no"`
	UserID    int64  `json:"user_id,string"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
}

// Refund is the refund that an event is about.
type Refund struct {
	RefundNo ids.ID `json:"refund_no"`
	OrderNo  ids.ID `json:"order_no"`
	UserID   int64  `json:"user_id,string"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Reason   string `json:"reason"` // why the money goes back
}

// Refunded reports that a refund returned money to the shopper: Whole if with it
// everything is back that the order was paid with.
type Refunded struct {
	Refund
	Whole bool `json:"whole,omitempty"`
}

// RefundAwaiting reports that an operator asked for a refund above the shop's limit:
// another one has to approve or reject it.
type RefundAwaiting struct{ Refund }

// RefundFailed reports that the provider refuses a refund for good, or that the money
// of one that was made came back to the shop.
type RefundFailed struct {
	Refund
	Detail string `json:"detail"` // why it does not go back; a provider's words among them
}

// Surplus reports that money arrived that pays no order, and why: its refund is
// requested.
type Surplus struct {
	PaymentNo ids.ID `json:"payment_no"`
	OrderNo   ids.ID `json:"order_no"`
	UserID    int64  `json:"user_id,string"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	Reason    string `json:"reason"` // late: the order was closed or refused; duplicate: it was paid; mismatch: another amount was charged
}

// Closed reports that a payment was closed at its provider before money arrived: its
// order ended, or the shopper pays in another way. Money that arrives nevertheless is
// a Captured or a Surplus.
type Closed struct {
	PaymentNo ids.ID `json:"payment_no"`
	OrderNo   ids.ID `json:"order_no"`
	UserID    int64  `json:"user_id,string"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
}
