package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/order/disputeevent"
	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
	"stampede/seckill/seckillevent"
)

// Event is what a system of the shop gets, posted or pulled.
type Event struct {
	ID        string          `json:"id" doc:"The same in every delivery: ignore an event whose id you have handled" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60-0"`
	Type      string          `json:"type" example:"order.paid"`
	Timestamp string          `json:"timestamp" format:"date-time" doc:"When it was committed"`
	Data      json.RawMessage `json:"data" doc:"By type; see the document's webhooks"`

	at    place
	about string // what waits behind it if it cannot be delivered: an order number, an activity
}

// place is where an event stands: the place of its message in the outbox's log, and its
// number in that message. Events are read from a place on, and the next one stands
// after it.
type place struct {
	Message int64
	Number  int32
}

// String is the place as a cursor.
func (p place) String() string { return fmt.Sprintf("%d-%d", p.Message, p.Number) }

func (p place) less(than place) bool {
	return p.Message < than.Message || p.Message == than.Message && p.Number < than.Number
}

// parsePlace reads a cursor; "" is the beginning.
func parsePlace(cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	message, number, found := strings.Cut(cursor, "-")
	n, numberErr := strconv.ParseUint(number, 10, 31)
	m, err := strconv.ParseInt(message, 10, 64)
	if !found || err != nil || numberErr != nil || m < 0 {
		return p, errCursor
	}
	return place{m, int32(n)}, nil //nolint:gosec // 31 bits
}

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

// part is one event of a message.
type part struct {
	about string
	data  any
}

// kind is what a subject of the bus is to the shop's systems.
type kind struct {
	name    string // the type of its events
	says    fault.Text
	example any // data
	parts   func(payload []byte) ([]part, error)
}

// kinds are by subject. A subject that is not listed stays inside.
var kinds = map[string]kind{
	orderevent.SubjectCreated:      ofOrders("order.created", fault.T("A shopper has an order, to be paid in time", "订单已生成，待付款"), orderevent.StatusPending),
	orderevent.SubjectRefused:      ofOrders("order.refused", fault.T("An attempt became no order", "抢购未成订单"), orderevent.StatusRefused),
	orderevent.SubjectPaid:         ofOrders("order.paid", fault.T("An order is paid: ship it, or have it ready", "订单已付款，可以发货或备货"), orderevent.StatusPaid),
	orderevent.SubjectClosed:       ofOrders("order.closed", fault.T("An order was not paid in time, canceled or withdrawn; its units are free again", "订单超时、取消或撤回，库存已释放"), orderevent.StatusClosed),
	orderevent.SubjectAmended:      ofOrders("order.amended", fault.T("An unpaid order has another amount, or a refunded one another reason", "待付款订单金额变化，或已退款订单原因变化"), orderevent.StatusPending),
	orderevent.SubjectShipped:      ofOrders("order.shipped", fault.T("An order has a parcel, or another one", "订单已发货或更换包裹"), orderevent.StatusPaid),
	orderevent.SubjectCompleted:    ofOrders("order.completed", fault.T("An order was handed over, or must have been", "订单已完成"), orderevent.StatusCompleted),
	orderevent.SubjectRefunding:    ofOrders("order.refunding", fault.T("All of an order's money is asked back: do not ship it", "订单全额退款中，请勿发货"), orderevent.StatusRefunding),
	orderevent.SubjectRefundFailed: ofOrders("order.refund_failed", fault.T("A refund of a whole order failed; an operator has to act", "全额退款失败，需人工处理"), orderevent.StatusRefundFailed),
	orderevent.SubjectRefunded:     ofOrders("order.refunded", fault.T("All of an order's money is back", "订单已全额退款"), orderevent.StatusRefunded),

	disputeevent.SubjectOpened:   ofDisputes("dispute.opened", fault.T("A shopper complains about an order", "买家发起纠纷"), disputeevent.StatusOpen),
	disputeevent.SubjectReplied:  ofDisputes("dispute.replied", fault.T("The shopper wrote again", "买家回复纠纷"), disputeevent.StatusOpen),
	disputeevent.SubjectAnswered: ofDisputes("dispute.answered", fault.T("The shop answered", "商家回复纠纷"), disputeevent.StatusAnswered),
	disputeevent.SubjectClosed:   ofDisputes("dispute.closed", fault.T("The shop closed a dispute", "商家关闭纠纷"), disputeevent.StatusClosed),

	paymentevent.SubjectCaptured: ofMoney("payment.captured", fault.T("Money arrived for an order", "订单收款"), PaymentData{PaymentNo: &exampleNo},
		func(e paymentevent.Captured) PaymentData {
			return PaymentData{PaymentNo: &e.PaymentNo, OrderNo: e.OrderNo, UserID: id(e.UserID), Amount: orderevent.Money{Amount: e.Amount, Currency: e.Currency}}
		}),
	paymentevent.SubjectSurplus: ofMoney("payment.surplus", fault.T("Money arrived that pays no order; it goes back", "收到多余款项，将退回"), PaymentData{PaymentNo: &exampleNo, Reason: "late"},
		func(e paymentevent.Surplus) PaymentData {
			return PaymentData{PaymentNo: &e.PaymentNo, OrderNo: e.OrderNo, UserID: id(e.UserID), Amount: orderevent.Money{Amount: e.Amount, Currency: e.Currency}, Reason: e.Reason}
		}),
	paymentevent.SubjectRefunded: ofMoney("refund.succeeded", fault.T("Money went back to the shopper", "退款成功"), PaymentData{RefundNo: &exampleNo, Reason: "operator", Whole: true},
		func(e paymentevent.Refunded) PaymentData {
			return PaymentData{RefundNo: &e.RefundNo, OrderNo: e.OrderNo, UserID: id(e.UserID), Amount: orderevent.Money{Amount: e.Amount, Currency: e.Currency}, Reason: e.Reason, Whole: e.Whole}
		}),
	paymentevent.SubjectClosed: ofMoney("payment.closed", fault.T("A payment ended without money; the shopper may start another while the order waits", "支付单已关闭，未收款；订单待付款期间可重新发起支付"), PaymentData{PaymentNo: &exampleNo},
		func(e paymentevent.Closed) PaymentData {
			return PaymentData{PaymentNo: &e.PaymentNo, OrderNo: e.OrderNo, UserID: id(e.UserID), Amount: orderevent.Money{Amount: e.Amount, Currency: e.Currency}}
		}),
	paymentevent.SubjectRefundFailed: ofMoney("refund.failed", fault.T("A refund will not be made unless an operator acts: the money is still with the shop", "退款失败，款项仍在商家账户，需人工处理"), PaymentData{RefundNo: &exampleNo, Reason: "operator", Detail: "the provider reports that the refund failed"},
		func(e paymentevent.RefundFailed) PaymentData {
			return PaymentData{RefundNo: &e.RefundNo, OrderNo: e.OrderNo, UserID: id(e.UserID), Amount: orderevent.Money{Amount: e.Amount, Currency: e.Currency}, Reason: e.Reason, Detail: e.Detail}
		}),

	seckillevent.SubjectChanged: {
		name: "activity.changed", says: fault.T("An activity was planned, published, changed, paused or ended", "活动被创建、发布、修改、暂停或结束"),
		example: ActivityData{ActivityID: "12"},
		parts: one(func(e seckillevent.Changed) part {
			return part{"activity " + id(e.ActivityID), ActivityData{id(e.ActivityID)}}
		}),
	},
	seckillevent.SubjectSessionOpened: ofSessions("session.opened", fault.T("A session of a published activity has opened", "场次已开始")),
	seckillevent.SubjectSessionEnded:  ofSessions("session.ended", fault.T("A session has closed, or its activity was ended; unpaid orders may still be paid", "场次已结束；未付款订单仍可能付款")),
	seckillevent.SubjectItemOpened:    ofItems("item.opened", fault.T("Attempts at an item are decided from now on", "商品开抢"), 100, 0),
	seckillevent.SubjectItemSoldOut:   ofItems("item.sold_out", fault.T("No units are left; those that are held may come back", "商品已抢光；待付款的库存可能释放"), 0, 20),
	seckillevent.SubjectItemUnitsBack: ofItems("item.units_back", fault.T("Units of an item that had none are left again", "商品重新有库存"), 3, 17),
}

// typeTest is the type of the event that an operator sends to try an endpoint.
const typeTest = "webhook.test"

// types are the types of events, sorted.
var types = func() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}()

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
	return kind{
		name, says,
		disputeevent.Changed{DisputeNo: exampleNo, OrderNo: exampleNo, UserID: 7, Status: status, Version: 1},
		one(func(e disputeevent.Changed) part { return part{e.OrderNo.String(), e} }),
	}
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
	return kind{name, says, of(example).data, func(payload []byte) ([]part, error) {
		var e seckillevent.Items
		if err := json.Unmarshal(payload, &e); err != nil {
			return nil, err
		}
		parts := make([]part, len(e.Items))
		for i, item := range e.Items {
			parts[i] = of(item)
		}
		return parts, nil
	}}
}

// one decodes a message that is one event.
func one[E any](of func(E) part) func([]byte) ([]part, error) {
	return func(payload []byte) ([]part, error) {
		var e E
		if err := json.Unmarshal(payload, &e); err != nil {
			return nil, err
		}
		return []part{of(e)}, nil
	}
}

// unreadableError is a message that cannot be decoded: a newer release wrote it. What
// follows it waits, because skipping it would lose it.
type unreadableError struct {
	id      ids.ID
	subject string
	err     error
}

func (e *unreadableError) Error() string {
	return fmt.Sprintf("webhook: message %s (%s) cannot be read, did a newer release write it? %v", e.id, e.subject, e.err)
}

func (e *unreadableError) Unwrap() error { return e.err }

// eventsOf returns the events of a message, or an unreadableError.
func eventsOf(m outbox.Logged) ([]Event, error) {
	k := kinds[m.Subject]
	parts, err := k.parts(m.Payload)
	if err != nil {
		return nil, &unreadableError{m.ID, m.Subject, err}
	}
	events := make([]Event, len(parts))
	for i, p := range parts {
		data, err := json.Marshal(p.data)
		if err != nil {
			return nil, fmt.Errorf("webhook: encode event %s (%s): %w", m.ID, m.Subject, err)
		}
		events[i] = Event{
			ID: m.ID.String() + "-" + strconv.Itoa(i), Type: k.name, Timestamp: orderevent.Time(m.CreatedAt), Data: data,
			at: place{m.Place, int32(i)}, about: p.about, //nolint:gosec // a message has some thousand orders
		}
	}
	return events, nil
}
