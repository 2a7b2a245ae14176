// Package orderevent is the contract of order with the other modules: every
// change of an order, packed, one event for all orders that one transaction
// changed; and View, the document that shoppers read, the same by polling and
// by push.
package orderevent

import (
	"slices"
	"time"

	"stampede/platform/base/ids"
)

// Subjects on the EVENTS stream, named after the status the orders entered,
// or after what changed while they stayed in it.
// The payload of each is Changed as JSON.
const (
	SubjectCreated = "events.order.created" // → pending_payment
	SubjectRefused = "events.order.refused" // → refused; the hold is to be released
	SubjectPaid    = "events.order.paid"    // → paid; the hold is to be committed
	SubjectClosed  = "events.order.closed"  // → closed; the units are to be released
	SubjectAmended = "events.order.amended" // still pending_payment, with another freight or discount; or refunded, with another reason

	SubjectCompleted    = "events.order.completed"     // → completed: handed over, or so long ago that it must have been
	SubjectShipped      = "events.order.shipped"       // still paid or completed, with another carrier or tracking number
	SubjectRefunding    = "events.order.refunding"     // → refunding: all of its money is asked back
	SubjectRefundFailed = "events.order.refund_failed" // → refund_failed: an operator has to act
	SubjectRefunded     = "events.order.refunded"      // → refunded; the hold is to be released

	SubjectAll = "events.order.*"
)

// Statuses of an order.
const (
	StatusPending      = "pending_payment"
	StatusPaid         = "paid"
	StatusCompleted    = "completed"
	StatusClosed       = "closed"
	StatusRefused      = "refused"
	StatusRefunding    = "refunding"
	StatusRefunded     = "refunded"
	StatusRefundFailed = "refund_failed"
)

// StatusQueued is what a shopper reads for a number that was granted and has no
// row yet. It is never stored.
const StatusQueued = "queued"

// Live reports whether an order of this status holds its units: whether they
// count as held or sold in the books.
func Live(status string) bool {
	return slices.Contains([]string{StatusPending, StatusPaid, StatusCompleted, StatusRefunding, StatusRefundFailed}, status)
}

// Reasons for a refusal or a closing, and for a payment after it.
const (
	ReasonDuplicate   = "duplicate"   // another live order of the user for the item or activity
	ReasonShortfall   = "shortfall"   // Postgres had no unit left
	ReasonInterrupted = "interrupted" // granted under an epoch older than Postgres's, or for an item it does not know
	ReasonBlocked     = "blocked"     // the user was blacklisted or disabled between the grant and the order
	ReasonTimeout     = "timeout"     // not paid in time
	ReasonCanceled    = "canceled"    // by the shopper
	ReasonWithdrawn   = "withdrawn"   // by an operator
	ReasonTakenBack   = "taken-back"  // of a refunded order: a provider took its refund back, and the shop owes it again
	ReasonBackup      = "backup"      // of a paid order: it was closed when the money arrived, and got units of the backup
)

// What is to happen with the goods of a paid order, or has; empty of goods that are not
// handed over.
const (
	HandoverToShip   = "to_ship"
	HandoverToPickUp = "to_pick_up"
	HandoverShipped  = "shipped"
)

// Changed is the payload of every SubjectAll event. One transaction's orders
// may be spread over several events, so that each stays far below the broker's
// largest message. Pack writes events and Decode reads them; a layout that older
// versions would misread gets a number, see Layout.
type Changed struct {
	Orders []Order `json:"orders"`
}

// Parcel is how an order was sent, for those to whom an event says that it was.
type Parcel struct {
	Carrier    [2]string // in English and in Chinese
	TrackingNo string    // empty of a parcel that the shop delivers itself
	At         time.Time
}

// Order is an order after the change. The order cache stores the same.
type Order struct {
	No          ids.ID    `json:"order_no"`
	UserID      int64     `json:"user_id,string"`
	ItemID      int64     `json:"item_id,string"`
	ActivityID  int64     `json:"activity_id,string"`
	SessionID   int64     `json:"session_id,string"`
	Shard       int16     `json:"shard,omitempty"`
	PerActivity bool      `json:"per_activity,omitempty"`
	Epoch       int64     `json:"epoch"`
	Quantity    int32     `json:"quantity"`
	UnitPrice   int64     `json:"unit_price"` // minor units of Currency
	Freight     int64     `json:"freight,omitempty"`
	Discount    int64     `json:"discount,omitempty"` // taken off the goods and the freight; not negative
	Currency    string    `json:"currency"`
	Title       string    `json:"title"`
	Status      string    `json:"status"`
	Reason      string    `json:"reason,omitempty"`
	Handover    string    `json:"handover,omitempty"` // once it was paid: HandoverToShip, HandoverToPickUp or HandoverShipped
	Version     int32     `json:"version"`            // rises with every change; an older one never replaces a newer
	PayDeadline time.Time `json:"pay_deadline"`
	PaidAt      time.Time `json:"paid_at,omitzero"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
}

// Amount is what the shopper pays, in minor units of the order's currency. The
// function orders.amount is the same sum in SQL.
func (o *Order) Amount() int64 { return o.Goods() + o.Freight - o.Discount }

// Goods is what the units cost, before freight and discount.
func (o *Order) Goods() int64 { return o.UnitPrice * int64(o.Quantity) }

// HasLines reports whether the order costs anything else than its goods. Versions
// that know no lines take Goods for the Amount.
func (o *Order) HasLines() bool { return o.Freight != 0 || o.Discount != 0 }

// Paid reports whether an order of this status was paid, even if the money has gone
// back since.
func Paid(status string) bool {
	return slices.Contains([]string{StatusPaid, StatusCompleted, StatusRefunding, StatusRefundFailed, StatusRefunded}, status)
}
