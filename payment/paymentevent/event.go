// Package paymentevent is the contract of payment with the other modules.
package paymentevent

import "stampede/platform/base/ids"

// Subjects on the EVENTS stream.
const (
	SubjectCaptured = "events.payment.captured" // money arrived for an order; payload Captured
	SubjectRefunded = "events.payment.refunded" // money went back; payload Refunded
	SubjectSurplus  = "events.payment.surplus"  // money arrived that pays no order, and will go back; payload Surplus
)

// Captured reports that the money of a payment arrived.
type Captured struct {
	PaymentNo ids.ID `json:"payment_no"`
	OrderNo   ids.ID `json:"order_no"`
	UserID    int64  `json:"user_id,string"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
}

// Refunded reports that a refund returned money to the shopper: Whole if with it
// everything is back that the order was paid with.
type Refunded struct {
	RefundNo ids.ID `json:"refund_no"`
	OrderNo  ids.ID `json:"order_no"`
	UserID   int64  `json:"user_id,string"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Reason   string `json:"reason"`
	Whole    bool   `json:"whole,omitempty"`
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
