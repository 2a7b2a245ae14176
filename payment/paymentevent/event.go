// Package paymentevent is what payment tells the other modules.
package paymentevent

import "stampede/platform/base/ids"

// Subjects on the EVENTS stream.
const (
	SubjectCaptured = "events.payment.captured" // money arrived for an order; payload Captured
	SubjectRefunded = "events.payment.refunded" // money went back; payload Refunded
)

// Captured says that a payment brought its money.
type Captured struct {
	PaymentNo ids.ID `json:"payment_no"`
	OrderNo   ids.ID `json:"order_no"`
	UserID    int64  `json:"user_id,string"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
}

// Refunded says that a refund brought money back to the shopper.
type Refunded struct {
	RefundNo ids.ID `json:"refund_no"`
	OrderNo  ids.ID `json:"order_no"`
	UserID   int64  `json:"user_id,string"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Reason   string `json:"reason"`
}
