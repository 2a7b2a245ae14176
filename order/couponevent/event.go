// Package couponevent is the contract of order/coupon with the other modules: what
// becomes of users' coupons. A coupon that expires has no event.
package couponevent

import "stampede/platform/base/ids"

// Subjects on the EVENTS stream. The payload of each is Changed as JSON.
const (
	SubjectIssued   = "events.coupon.issued"   // to users
	SubjectUsed     = "events.coupon.used"     // the order was paid
	SubjectReturned = "events.coupon.returned" // the paid order was refunded in full: it can be used again
	SubjectRecalled = "events.coupon.recalled" // it serves no further order
)

// Who issued a coupon.
const (
	ByClaim    = "claim"    // the shopper claimed it
	ByOperator = "operator" // an operator issued it
	ByRule     = "rule"     // for a registration or a reservation
)

// Changed are coupons of which the same became in one transaction.
type Changed struct {
	Coupons []Coupon `json:"coupons"`
}

// Coupon is a coupon of a user. A recall of a kind names no coupon: it is of all that
// the kind has issued.
type Coupon struct {
	CouponNo *ids.ID `json:"coupon_no,omitempty"`
	KindID   int64   `json:"kind_id,string"`
	UserID   int64   `json:"user_id,string,omitempty"`
	By       string  `json:"by,omitempty"`       // of one that was issued
	OrderNo  *ids.ID `json:"order_no,omitempty"` // of one that was used or returned
	Discount int64   `json:"discount,omitempty"` // that it takes, or took, off the order
	Currency string  `json:"currency,omitempty"`
}
