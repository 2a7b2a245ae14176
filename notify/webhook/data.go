package webhook

import (
	"encoding/json"
	"strconv"
	"time"

	"stampede/order/couponevent"
	"stampede/order/disputeevent"
	"stampede/order/orderevent"
	"stampede/order/pointsevent"
	"stampede/payment/paymentevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/watch/alarm"
	"stampede/seckill/seckillevent"
)

// OrderData is an order after a change.
type OrderData struct {
	orderevent.OrderView
	UserID string `json:"user_id"`
}

// PaymentData is a payment or a refund of an order.
type PaymentData struct {
	PaymentNo *ids.ID          `json:"payment_no,omitempty"`
	RefundNo  *ids.ID          `json:"refund_no,omitempty"`
	OrderNo   ids.ID           `json:"order_no"`
	UserID    string           `json:"user_id"`
	Amount    orderevent.Money `json:"amount"`
	Reason    string           `json:"reason,omitempty" enum:"late,duplicate,mismatch,shopper,operator,dispute" doc:"Why the money goes back"`
	Detail    string           `json:"detail,omitempty" doc:"Of a refund that failed: why, in the provider's words where it gave some"`
	Whole     bool             `json:"whole,omitempty" doc:"Of a refund: with it everything is back that the order was paid with"`
}

// refundData is what the events about a refund have in common.
func refundData(r paymentevent.Refund) PaymentData {
	return PaymentData{RefundNo: &r.RefundNo, OrderNo: r.OrderNo, UserID: id(r.UserID), Amount: orderevent.Money{Amount: r.Amount, Currency: r.Currency}, Reason: r.Reason}
}

// DisputeData is a dispute after a change.
type DisputeData struct {
	disputeevent.Changed
	UserID string `json:"user_id"`
}

// ActivityData names an activity that was planned, published, changed, paused or ended.
type ActivityData struct {
	ActivityID string `json:"activity_id" example:"12" doc:"Read it for what it is now"`
}

// SessionData is a session that opened or ended.
type SessionData struct {
	SessionID          string `json:"session_id" example:"31"`
	ExternalID         string `json:"external_id,omitempty" doc:"What the shop's own systems call the session"`
	ActivityID         string `json:"activity_id" example:"12"`
	ActivityExternalID string `json:"activity_external_id,omitempty"`
	OpensAt            string `json:"opens_at" format:"date-time"`
	ClosesAt           string `json:"closes_at" format:"date-time" doc:"As planned"`
	Terminated         bool   `json:"terminated,omitempty" doc:"An operator ended it before"`
}

// ItemData is an item on sale.
type ItemData struct {
	ItemID             string `json:"item_id" example:"42"`
	ExternalID         string `json:"external_id,omitempty" doc:"What the shop's own systems call the item"`
	SKU                string `json:"sku"`
	SessionID          string `json:"session_id" example:"31"`
	SessionExternalID  string `json:"session_external_id,omitempty"`
	ActivityID         string `json:"activity_id" example:"12"`
	ActivityExternalID string `json:"activity_external_id,omitempty"`
	Left               *int64 `json:"left,omitempty" doc:"Units that could be taken at that moment; missing if they are unlimited"`
	Held               int64  `json:"held" doc:"Units of attempts and orders that were not paid: they may come back"`
}

// CouponData is a coupon of a user after a change.
type CouponData struct {
	CouponNo *ids.ID           `json:"coupon_no,omitempty" doc:"Missing if the whole kind was recalled: it is of every coupon that the kind had issued"`
	KindID   string            `json:"kind_id" example:"5"`
	UserID   string            `json:"user_id,omitempty"`
	By       string            `json:"by,omitempty" enum:"claim,operator,rule" doc:"Who issued it"`
	OrderNo  *ids.ID           `json:"order_no,omitempty" doc:"The order that it was used for"`
	Discount *orderevent.Money `json:"discount,omitempty" doc:"That it took off the order"`
}

// PointsData is an entry of the ledger of users' points.
type PointsData struct {
	EntryNo ids.ID `json:"entry_no"`
	OrderNo ids.ID `json:"order_no"`
	UserID  string `json:"user_id" example:"7"`
	Points  int64  `json:"points" doc:"Negative for points that were taken back. Added up, each entry_no once, they are the user's balance"`
}

// AlarmData is a problem that needs an operator.
type AlarmData struct {
	AlarmID    string         `json:"alarm_id" example:"17"`
	Incident   int            `json:"incident" doc:"Of this code and subject; an incident goes on until an hour has passed without the problem"`
	Code       alarm.Code     `json:"code" example:"refund-failed" doc:"The list of alarms explains each"`
	Severity   alarm.Severity `json:"severity" enum:"warning,critical"`
	Subject    string         `json:"subject" example:"refund 0198f2c8b5d07c3e9a4f1b2c3d4e5f62"`
	Detail     string         `json:"detail,omitempty"`
	NextAction string         `json:"next_action"`
	OpenedAt   string         `json:"opened_at" format:"date-time"`
}

func id(n int64) string { return strconv.FormatInt(n, 10) }

// exampleNo is a number in the examples.
var exampleNo = ids.ID{0x01, 0x98, 0xf2, 0xc8, 0xb5, 0xd0, 0x7c, 0x3e, 0x9a, 0x4f, 0x1b, 0x2c, 0x3d, 0x4e, 0x5f, 0x60}

var exampleAt = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

func ofOrders(name string, says fault.Text, status string) kind {
	example := orderevent.Order{
		No: exampleNo, UserID: 7, ItemID: 42, ActivityID: 12, SessionID: 31, Quantity: 1, UnitPrice: 9900, Currency: "CNY", Title: "Phone", Status: status, Version: 2,
		PayDeadline: exampleAt.Add(15 * time.Minute), CreatedAt: exampleAt, UpdatedAt: exampleAt,
	}
	return kind{name, says, orderData(example), func(payload []byte) ([]part, error) {
		changed, err := orderevent.Decode(payload)
		if err != nil {
			return nil, err
		}
		parts := make([]part, len(changed.Orders))
		for i := range changed.Orders {
			parts[i] = part{changed.Orders[i].No.String(), orderData(changed.Orders[i])}
		}
		return parts, nil
	}}
}

// orderData is the order with the reason that operators read.
func orderData(o orderevent.Order) OrderData {
	d := OrderData{orderevent.View(o), id(o.UserID)}
	d.Reason = o.Reason
	return d
}

func ofDisputes(name string, says fault.Text, status string) kind {
	of := func(e disputeevent.Changed) part { return part{e.OrderNo.String(), DisputeData{e, id(e.UserID)}} }
	return kind{name, says, of(disputeevent.Changed{DisputeNo: exampleNo, OrderNo: exampleNo, UserID: 7, Status: status, Version: 1}).data, one(of)}
}

func ofMoney[E any](name string, says fault.Text, example PaymentData, data func(E) PaymentData) kind {
	example.OrderNo, example.UserID, example.Amount = exampleNo, "7", orderevent.Money{Amount: 9900, Currency: "CNY"}
	return kind{name, says, example, one(func(e E) part {
		d := data(e)
		return part{d.OrderNo.String(), d}
	})}
}

func ofSessions(name string, says fault.Text) kind {
	of := func(e seckillevent.Session) part {
		return part{"session " + id(e.SessionID), SessionData{
			SessionID: id(e.SessionID), ExternalID: e.ExternalID, ActivityID: id(e.ActivityID), ActivityExternalID: e.ActivityExternalID,
			OpensAt: orderevent.Time(e.OpensAt), ClosesAt: orderevent.Time(e.ClosesAt), Terminated: e.Terminated,
		}}
	}
	return kind{name, says, of(seckillevent.Session{
		SessionID: 31, ActivityID: 12, ActivityExternalID: "double-eleven", OpensAt: exampleAt, ClosesAt: exampleAt.Add(time.Hour),
	}).data, one(of)}
}

func ofItems(name string, says fault.Text, left, held int64) kind {
	of := func(e seckillevent.Item) part {
		data := ItemData{
			ItemID: id(e.ItemID), ExternalID: e.ExternalID, SKU: e.SKU, SessionID: id(e.SessionID), SessionExternalID: e.SessionExternalID,
			ActivityID: id(e.ActivityID), ActivityExternalID: e.ActivityExternalID, Left: &e.Left, Held: e.Held,
		}
		if e.Unlimited {
			data.Left = nil
		}
		return part{"item " + id(e.ItemID), data}
	}
	example := seckillevent.Item{ItemID: 42, ExternalID: "P-1", SKU: "phone", SessionID: 31, ActivityID: 12, ActivityExternalID: "double-eleven", Left: left, Held: held}
	return kind{name, says, of(example).data, many(func(e seckillevent.Items) []seckillevent.Item { return e.Items }, of)}
}

// usedCoupon is a coupon in the examples.
var usedCoupon = couponevent.Coupon{UserID: 7, OrderNo: &exampleNo, Discount: 1000, Currency: "CNY"}

func ofCoupons(name string, says fault.Text, example couponevent.Coupon) kind {
	of := func(e couponevent.Coupon) part {
		data, about := CouponData{CouponNo: e.CouponNo, KindID: id(e.KindID), By: e.By, OrderNo: e.OrderNo}, "coupons "+id(e.KindID)
		if e.CouponNo != nil {
			data.UserID, about = id(e.UserID), "coupon "+e.CouponNo.String()
		}
		if e.OrderNo != nil {
			data.Discount = &orderevent.Money{Amount: e.Discount, Currency: e.Currency}
		}
		return part{about, data}
	}
	example.CouponNo, example.KindID = &exampleNo, 5
	return kind{name, says, of(example).data, many(func(e couponevent.Changed) []couponevent.Coupon { return e.Coupons }, of)}
}

func ofPoints(name string, says fault.Text, points int64) kind {
	of := func(e pointsevent.Entry) part {
		return part{"points of user " + id(e.UserID), PointsData{e.EntryNo, e.OrderNo, id(e.UserID), e.Points}}
	}
	return kind{name, says, of(pointsevent.Entry{EntryNo: exampleNo, OrderNo: exampleNo, UserID: 7, Points: points}).data, one(of)}
}

func alarmData(e alarm.Raised) AlarmData {
	return AlarmData{
		AlarmID: id(e.ID), Incident: e.Incident, Code: e.Code, Severity: e.Severity, Subject: e.Subject, Detail: e.Detail,
		NextAction: e.NextAction, OpenedAt: orderevent.Time(e.OpenedAt),
	}
}

// one decodes a message that is one event.
func one[E any](of func(E) part) func([]byte) ([]part, error) {
	return many(func(e E) []E { return []E{e} }, of)
}

// many decodes a message that is one event of each of its elements.
func many[E, I any](elements func(E) []I, of func(I) part) func([]byte) ([]part, error) {
	return func(payload []byte) ([]part, error) {
		var e E
		if err := json.Unmarshal(payload, &e); err != nil {
			return nil, err
		}
		var parts []part
		for _, element := range elements(e) {
			parts = append(parts, of(element))
		}
		return parts, nil
	}
}
