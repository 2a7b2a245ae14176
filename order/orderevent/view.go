package orderevent

import (
	"strconv"
	"time"

	"stampede/platform/base/currency"
	"stampede/platform/base/ids"
)

// timeLayout is RFC 3339 with exactly three decimals: a client that compares
// two of our times as text must not be misled by a missing ".000".
const timeLayout = "2006-01-02T15:04:05.000Z"

// Time renders a time as documents carry it: UTC, RFC 3339, milliseconds.
func Time(t time.Time) string { return t.UTC().Format(timeLayout) }

// OrderView is an order as its shopper reads it, by polling and by push alike.
// A queued number has only the first members; an order has all but position and
// poll_after_ms. Ids are strings because JavaScript's numbers are exact only up
// to 2^53.
type OrderView struct {
	OrderNo     ids.ID `json:"order_no" doc:"The number of the attempt, known since the rush path" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Status      string `json:"status" enum:"queued,pending_payment,paid,completed,closed,refused,refunding,refunded,refund_failed" doc:"queued: in line; pending_payment: to be paid by pay_until; paid: also an order that was closed, if its money arrived late and units were held back (reason backup); closed: not paid in time, canceled, or withdrawn by the shop; refused: never an order, see reason"`
	Reason      string `json:"reason,omitempty" doc:"Why it was refused or closed, or paid after that; taken-back: the bank returned a refund that was made, and the shop will pay it back again" enum:"duplicate,shortfall,interrupted,not-available,timeout,canceled,withdrawn,backup,taken-back"`
	Handover    string `json:"handover,omitempty" enum:"to_ship,to_pick_up,shipped" doc:"Of a paid order: what is to happen with the goods, or has; left out of goods that are not handed over"`
	Position    *int64 `json:"position,omitempty" doc:"Place in line: 1 is the next to become an order, 0 is becoming one; only while queued"`
	PollAfterMS int64  `json:"poll_after_ms,omitempty" doc:"When asking again makes sense, in milliseconds; only while queued"`
	ItemID      string `json:"item_id,omitempty"`
	ActivityID  string `json:"activity_id,omitempty"`
	SessionID   string `json:"session_id,omitempty"`
	Title       string `json:"title,omitempty" doc:"As it was when the unit was granted"`
	Quantity    int32  `json:"quantity,omitempty" doc:"Units"`
	UnitPrice   *Money `json:"unit_price,omitempty"`
	Amount      *Money `json:"amount,omitempty" doc:"What the order costs: the total of its lines"`
	Lines       *Lines `json:"lines,omitempty" doc:"How the amount comes about"`
	PayDeadline string `json:"pay_until,omitempty" format:"date-time" doc:"By the server's clock; see /api/v1/time"`
	PaidAt      string `json:"paid_at,omitempty" format:"date-time" doc:"When the payment was recorded"`
	CreatedAt   string `json:"created_at,omitempty" format:"date-time"`
	UpdatedAt   string `json:"updated_at,omitempty" format:"date-time"`
	Version     int32  `json:"version,omitempty" doc:"Rises with every change; drop a document with a lower one than you have"`
}

// Lines are the parts of an order's amount: goods + freight − discount = total.
type Lines struct {
	Goods    Money `json:"goods" doc:"unit_price × quantity"`
	Freight  Money `json:"freight"`
	Discount Money `json:"discount" doc:"Not negative; it is subtracted"`
	Total    Money `json:"total"`
	Paid     Money `json:"paid" doc:"The total once the order was paid, else 0; refunds do not change it"`
}

// linesOf returns an order's lines.
func linesOf(o *Order) *Lines {
	in := func(amount int64) Money { return Money{Amount: amount, Currency: o.Currency} }
	lines := &Lines{Goods: in(o.Goods()), Freight: in(o.Freight), Discount: in(o.Discount), Total: in(o.Amount()), Paid: in(0)}
	if Paid(o.Status) {
		lines.Paid = lines.Total
	}
	return lines
}

// reasonNotAvailable is what a shopper reads instead of ReasonBlocked: that there
// is a blacklist, and that the shopper is on it, is internal to the operators.
const reasonNotAvailable = "not-available"

// ShoppersReason returns a reason as its shopper reads it.
func ShoppersReason(reason string) string {
	if reason == ReasonBlocked {
		return reasonNotAvailable
	}
	return reason
}

// View renders an order for its shopper.
func View(o Order) OrderView {
	v := OrderView{
		OrderNo: o.No, Status: o.Status, Reason: ShoppersReason(o.Reason),
		ItemID: strconv.FormatInt(o.ItemID, 10), ActivityID: strconv.FormatInt(o.ActivityID, 10),
		SessionID: strconv.FormatInt(o.SessionID, 10), Title: o.Title, Quantity: o.Quantity,
		UnitPrice:   &Money{Amount: o.UnitPrice, Currency: o.Currency},
		Amount:      &Money{Amount: o.Amount(), Currency: o.Currency},
		Lines:       linesOf(&o),
		PayDeadline: Time(o.PayDeadline), CreatedAt: Time(o.CreatedAt), UpdatedAt: Time(o.UpdatedAt), Version: o.Version,
	}
	if o.Status == StatusPaid {
		v.Handover = o.Handover
	}
	if !o.PaidAt.IsZero() {
		v.PaidAt = Time(o.PaidAt)
	}
	return v
}

// QueuedView renders a number that waits for the order writer with that many
// grants before it. The rush answers with the same document.
func QueuedView(no ids.ID, position int64) OrderView {
	position = max(position, 0)
	return OrderView{
		OrderNo: no, Status: StatusQueued, Position: &position,
		PollAfterMS: PollAfter(position).Milliseconds(),
	}
}

const (
	// minPollAfter is below what a person notices and above what the writer needs
	// for a batch: an earlier poll gets the same answer.
	minPollAfter = 200 * time.Millisecond
	// maxPollAfter bounds how late a shopper sees the order if the line moves
	// faster than expected.
	maxPollAfter = 2 * time.Second
	// pollPerPosition spreads the polls of a long line: at the slowest writer we
	// design for, 10,000 orders a second, each place takes a tenth of a
	// millisecond.
	pollPerPosition = time.Second / 10_000
)

// PollAfter is how long a client at a position should wait before it polls
// again: 200 ms to 2 s, longer the longer the line.
func PollAfter(position int64) time.Duration {
	// The bound on position comes first: it keeps the product from overflowing.
	position = min(max(position, 0), int64(maxPollAfter/pollPerPosition))
	return min(minPollAfter+time.Duration(position)*pollPerPosition, maxPollAfter)
}

// PaidBy is the payment that paid an order.
type PaidBy struct {
	PaymentNo   ids.ID `json:"payment_no"`
	Provider    string `json:"provider" example:"sandbox"`
	Method      string `json:"method,omitempty" doc:"The provider's way to pay" example:"page"`
	ProviderTxn string `json:"provider_txn" doc:"The provider's own number"`
}

// Money is an amount as it appears in every document.
type Money = currency.Money
