package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stampede/order/couponevent"
	"stampede/order/disputeevent"
	"stampede/order/orderevent"
	"stampede/order/pointsevent"
	"stampede/payment/paymentevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/outbox"
	"stampede/platform/watch/alarm"
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
	orderevent.SubjectCreated: ofOrders("order.created", fault.T("A shopper has an order, to be paid in time", "订单已生成，待付款"), orderevent.StatusPending),
	orderevent.SubjectRefused: ofOrders("order.refused", fault.T("An attempt became no order", "抢购未成订单"), orderevent.StatusRefused),
	orderevent.SubjectPaid:    ofOrders("order.paid", fault.T("An order is paid: ship it, or have it ready", "订单已付款，可以发货或备货"), orderevent.StatusPaid),
	orderevent.SubjectClosed: ofOrders("order.closed",
		fault.T("An order was not paid in time, canceled or withdrawn; its units are free again", "订单超时、取消或撤回，库存已释放"), orderevent.StatusClosed),
	orderevent.SubjectAmended: ofOrders("order.amended",
		fault.T("An unpaid order has another amount, or a refunded one another reason", "待付款订单金额变化，或已退款订单原因变化"), orderevent.StatusPending),
	orderevent.SubjectShipped:   ofOrders("order.shipped", fault.T("An order has a parcel, or another one", "订单已发货或更换包裹"), orderevent.StatusPaid),
	orderevent.SubjectCompleted: ofOrders("order.completed", fault.T("An order was handed over, or must have been", "订单已完成"), orderevent.StatusCompleted),
	orderevent.SubjectRefunding: ofOrders("order.refunding",
		fault.T("All of an order's money is asked back: do not ship it", "订单全额退款中，请勿发货"), orderevent.StatusRefunding),
	orderevent.SubjectRefundFailed: ofOrders("order.refund_failed",
		fault.T("A refund of a whole order failed; an operator has to act", "全额退款失败，需人工处理"), orderevent.StatusRefundFailed),
	orderevent.SubjectRefunded: ofOrders("order.refunded", fault.T("All of an order's money is back", "订单已全额退款"), orderevent.StatusRefunded),

	disputeevent.SubjectOpened:   ofDisputes("dispute.opened", fault.T("A shopper complains about an order", "买家发起纠纷"), disputeevent.StatusOpen),
	disputeevent.SubjectReplied:  ofDisputes("dispute.replied", fault.T("The shopper wrote again", "买家回复纠纷"), disputeevent.StatusOpen),
	disputeevent.SubjectAnswered: ofDisputes("dispute.answered", fault.T("The shop answered", "商家回复纠纷"), disputeevent.StatusAnswered),
	disputeevent.SubjectClosed:   ofDisputes("dispute.closed", fault.T("The shop closed a dispute", "商家关闭纠纷"), disputeevent.StatusClosed),

	paymentevent.SubjectCaptured: ofMoney("payment.captured", fault.T("Money arrived for an order", "订单收款"), PaymentData{PaymentNo: &exampleNo},
		func(e paymentevent.Captured) PaymentData {
			return PaymentData{PaymentNo: &e.PaymentNo, OrderNo: e.OrderNo, UserID: id(e.UserID), Amount: orderevent.Money{Amount: e.Amount, Currency: e.Currency}}
		}),
	paymentevent.SubjectSurplus: ofMoney("payment.surplus",
		fault.T("Money arrived that pays no order; it goes back", "收到多余款项，将退回"), PaymentData{PaymentNo: &exampleNo, Reason: "late"},
		func(e paymentevent.Surplus) PaymentData {
			return PaymentData{PaymentNo: &e.PaymentNo, OrderNo: e.OrderNo, UserID: id(e.UserID), Amount: orderevent.Money{Amount: e.Amount, Currency: e.Currency}, Reason: e.Reason}
		}),
	paymentevent.SubjectRefunded: ofMoney("refund.succeeded",
		fault.T("Money went back to the shopper", "退款成功"), PaymentData{RefundNo: &exampleNo, Reason: "operator", Whole: true},
		func(e paymentevent.Refunded) PaymentData {
			data := refundData(e.Refund)
			data.Whole = e.Whole
			return data
		}),
	paymentevent.SubjectClosed: ofMoney("payment.closed",
		fault.T("A payment ended without money; the shopper may start another while the order waits", "支付单已关闭，未收款；订单待付款期间可重新发起支付"), PaymentData{PaymentNo: &exampleNo},
		func(e paymentevent.Closed) PaymentData {
			return PaymentData{PaymentNo: &e.PaymentNo, OrderNo: e.OrderNo, UserID: id(e.UserID), Amount: orderevent.Money{Amount: e.Amount, Currency: e.Currency}}
		}),
	paymentevent.SubjectRefundAwaiting: ofMoney("refund.awaiting_approval",
		fault.T("An operator asked for a refund above the shop's limit; a second one has to decide", "退款金额超过审批线，待另一位员工审批"), PaymentData{RefundNo: &exampleNo, Reason: "operator"},
		func(e paymentevent.RefundAwaiting) PaymentData { return refundData(e.Refund) }),
	paymentevent.SubjectRefundFailed: ofMoney("refund.failed",
		fault.T("A refund will not be made unless an operator acts: the money is still with the shop", "退款失败，款项仍在商家账户，需人工处理"), PaymentData{RefundNo: &exampleNo, Reason: "operator", Detail: "the provider reports that the refund failed"},
		func(e paymentevent.RefundFailed) PaymentData {
			data := refundData(e.Refund)
			data.Detail = e.Detail
			return data
		}),

	seckillevent.SubjectChanged: {
		name: "activity.changed", says: fault.T("An activity was planned, published, changed, paused or ended", "活动被创建、发布、修改、暂停或结束"),
		example: ActivityData{ActivityID: "12"},
		parts: one(func(e seckillevent.Changed) part {
			return part{"activity " + id(e.ActivityID), ActivityData{id(e.ActivityID)}}
		}),
	},
	seckillevent.SubjectSessionOpened: ofSessions("session.opened", fault.T("A session of a published activity has opened", "场次已开始")),
	seckillevent.SubjectSessionEnded: ofSessions("session.ended",
		fault.T("A session has closed, or its activity was ended; unpaid orders may still be paid", "场次已结束；未付款订单仍可能付款")),
	seckillevent.SubjectItemOpened:    ofItems("item.opened", fault.T("Attempts at an item are decided from now on", "商品开抢"), 100, 0),
	seckillevent.SubjectItemSoldOut:   ofItems("item.sold_out", fault.T("No units are left; those that are held may come back", "商品已抢光；待付款的库存可能释放"), 0, 20),
	seckillevent.SubjectItemUnitsBack: ofItems("item.units_back", fault.T("An item that had none has units again, returned or added", "商品重新有库存（释放或补货）"), 3, 17),

	couponevent.SubjectIssued: ofCoupons("coupon.issued",
		fault.T("A user was issued a coupon", "用户获得优惠券"), couponevent.Coupon{UserID: 7, By: couponevent.ByClaim}),
	couponevent.SubjectUsed: ofCoupons("coupon.used", fault.T("An order was paid with a coupon", "优惠券已使用"), usedCoupon),
	couponevent.SubjectReturned: ofCoupons("coupon.returned",
		fault.T("A paid order was refunded in full; its coupon can be used again", "订单全额退款，优惠券已退回"), usedCoupon),
	couponevent.SubjectRecalled: ofCoupons("coupon.recalled",
		fault.T("The shop recalled a coupon, or all of a kind; they serve no further order", "商家收回优惠券"), couponevent.Coupon{UserID: 7}),

	pointsevent.SubjectEarned:    ofPoints("points.earned", fault.T("A user earned points with a paid order", "订单付款，用户获得积分"), 99),
	pointsevent.SubjectTakenBack: ofPoints("points.taken_back", fault.T("A refund took points back", "退款扣回积分"), -99),
	pointsevent.SubjectGivenBack: ofPoints("points.given_back", fault.T("A refund was undone; its points are back", "退款未成，积分返还"), 99),

	alarm.SubjectRaised: {
		name: "alarm.raised", says: fault.T("A problem needs an operator; told once for an incident, however often it is found", "出现需人工处理的告警；同一事件只推送一次"),
		example: alarmData(alarm.Raised{ID: 17, Incident: 1, Code: "refund-failed", Severity: alarm.Critical, Subject: "refund " + exampleNo.String(), NextAction: "Retry it.", OpenedAt: exampleAt}),
		parts:   one(func(e alarm.Raised) part { return part{"alarm " + id(e.ID), alarmData(e)} }),
	},
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

// unreadableError is a message that cannot be decoded: a newer release wrote it. In the
// log what follows it waits, because skipping it would lose it; of what waits already, only
// what is about the same thing.
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
