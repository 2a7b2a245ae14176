// Package paymentevent is the contract of payment with the other modules.
package paymentevent

import "stampede/platform/base/ids"

// Subjects on the EVENTS stream.
const (
	SubjectCaptured = "events.payment.captured" // money arrived for an order; payload Captured
	SubjectRefunded = "events.payment.refunded" // money went back; payload Refunded
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
