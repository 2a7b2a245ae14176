package search

import (
	"cmp"
	"strconv"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
)

// forPeople is the export that people read, and carriers' clients take.
const forPeople = "people"

// column is one of an export for people.
type column struct {
	name  fault.Text
	adds  bool // a spreadsheet adds it up
	value func(r *AdminOrderRow) string
}

// states are the states of orders, and of what is handed over, in words.
var states = map[string]fault.Text{
	orderevent.StatusPending: {"Unpaid", "待付款"}, orderevent.StatusPaid: {"Paid", "已付款"}, orderevent.StatusCompleted: {"Completed", "已完成"},
	orderevent.StatusClosed: {"Closed", "已关闭"}, orderevent.StatusRefused: {"Refused", "未成交"}, orderevent.StatusRefunding: {"Refunding", "退款中"},
	orderevent.StatusRefunded: {"Refunded", "已退款"}, orderevent.StatusRefundFailed: {"Refund failed", "退款失败"},
	orderevent.HandoverToShip: {"To be shipped", "待发货"}, orderevent.HandoverToPickUp: {"Ready for pickup", "待提货"}, orderevent.HandoverShipped: {"Shipped", "已发货"},
}

// people is the layout for a reader of a language, in the shop's zone.
func people(lang httpx.Language, zone *time.Location) layout {
	if zone == nil {
		zone = time.UTC
	}
	at := func(text string) string {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t.In(zone).Format("2006-01-02 15:04:05")
		}
		return ""
	}
	columns := []column{
		{fault.Text{"Order number", "订单号"}, false, func(r *AdminOrderRow) string { return r.OrderNo.String() }},
		{fault.Text{"Status", "状态"}, false, func(r *AdminOrderRow) string { return states[cmp.Or(r.Handover, r.Status)][lang] }},
		{fault.Text{"Recipient", "收件人"}, false, func(r *AdminOrderRow) string { return r.recipient().Name }},
		{fault.Text{"Phone", "联系电话"}, false, func(r *AdminOrderRow) string { return account.Phone(cmp.Or(r.recipient().Phone, r.Phone)).Local() }},
		{fault.Text{"Address", "收货地址"}, false, func(r *AdminOrderRow) string { return r.recipient().Address }},
		{fault.Text{"Note", "买家留言"}, false, func(r *AdminOrderRow) string { return r.recipient().Note }},
		{fault.Text{"SKU", "商品编码"}, false, func(r *AdminOrderRow) string { return r.SKU }},
		{fault.Text{"Item", "商品名称"}, false, func(r *AdminOrderRow) string { return r.Title }},
		{fault.Text{"Variant", "规格"}, false, func(r *AdminOrderRow) string { return r.Spec }},
		{fault.Text{"Quantity", "数量"}, true, func(r *AdminOrderRow) string { return strconv.Itoa(int(r.Quantity)) }},
		{fault.Text{"Carrier", "快递公司"}, false, func(r *AdminOrderRow) string { return r.sent().CarrierName }},
		{fault.Text{"Tracking number", "运单号"}, false, func(r *AdminOrderRow) string { return r.sent().TrackingNo }},
		{fault.Text{"Shipped at", "发货时间"}, false, func(r *AdminOrderRow) string { return at(r.sent().At) }},
		{fault.Text{"Goods", "商品金额"}, true, func(r *AdminOrderRow) string { return r.Lines.Goods.Units() }},
		{fault.Text{"Shipping", "运费"}, true, func(r *AdminOrderRow) string { return r.Lines.Freight.Units() }},
		{fault.Text{"Discount", "优惠"}, true, func(r *AdminOrderRow) string { return r.Lines.Discount.Units() }},
		{fault.Text{"Paid", "实付金额"}, true, func(r *AdminOrderRow) string { return r.Lines.Paid.Units() }},
		{fault.Text{"Refunded", "已退金额"}, true, func(r *AdminOrderRow) string { return r.refunded().Units() }},
		{fault.Text{"Currency", "币种"}, false, func(r *AdminOrderRow) string { return r.Amount.Currency }},
		{fault.Text{"Ordered at", "下单时间"}, false, func(r *AdminOrderRow) string { return at(r.CreatedAt) }},
		{fault.Text{"Paid at", "付款时间"}, false, func(r *AdminOrderRow) string { return at(r.PaidAt) }},
		{fault.Text{"External id", "外部编号"}, false, func(r *AdminOrderRow) string { return r.ExternalID }},
		{fault.Text{"Cursor", "续传位置"}, false, func(r *AdminOrderRow) string { return r.next }},
	}
	as := layout{numeric: map[string]bool{}, texts: true}
	for _, c := range columns {
		as.heading = append(as.heading, c.name[lang])
		as.numeric[c.name[lang]] = c.adds
	}
	as.cells = func(r *AdminOrderRow) []string {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.value(r)
		}
		return cells
	}
	return as
}
