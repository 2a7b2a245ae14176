package orderoffice

import (
	"net/url"

	"stampede/order/orderevent"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/external"
	kit "stampede/platform/edge/office"
)

// forms are those about orders and disputes, in the order in which a page lists them.
var forms = []kit.Act{
	{
		Path: detail + "/ship", API: "PUT " + api + "/{no}/shipment", Role: auth.Operator, On: detail, When: in(orderevent.StatusPaid, orderevent.StatusCompleted),
		Title: kit.Text{"Ship order", "发货"}, Done: kit.Text{"Marked as shipped. The shopper can see the carrier and tracking number.", "已发货，顾客可查看物流信息。"},
		Fields: []kit.Field{
			{Name: "carrier", Label: kit.Text{"Carrier", "快递公司"}, Required: true, Max: 60},
			{Name: "tracking_no", Label: kit.Text{"Tracking number", "运单号"}, Required: true, Max: 64},
		},
	},
	{
		Path: detail + "/complete", API: "POST " + api + "/{no}/complete", Role: auth.Operator, On: detail, When: in(orderevent.StatusPaid),
		Title: kit.Text{"Complete order", "确认完成"}, Done: kit.Text{"The order is completed.", "订单已完成。"},
		Warning: kit.Text{"Confirm that the goods have arrived. Shoppers can then no longer refund the order themselves.", "确认商品已送达。完成后顾客不能自助退单。"},
	},
	{
		Path: detail + "/note", API: "POST " + api + "/{no}/notes", Role: auth.Operator, On: detail,
		Title: kit.Text{"Add a note", "添加备注"}, Done: kit.Text{"Note added.", "备注已添加。"},
		Fields: []kit.Field{{Name: "note", Label: kit.Text{"Note (staff only)", "备注（仅员工可见）"}, Kind: kit.Area, Required: true, Max: 500}},
	},
	{
		Path: detail + "/external", API: "PATCH " + api + "/{no}/external", Role: auth.Operator, On: detail,
		Title: kit.Text{"Set external id", "设置外部编号"}, Button: kit.Text{"Save", "保存"}, Done: kit.Text{"External id saved.", "外部编号已保存。"},
		With:   kit.Values(externalID.Name, "order."+externalID.Name),
		Fields: []kit.Field{externalID},
	},
	{
		Path: "/admin/disputes/{no}/answer", API: "POST /api/v1/admin/disputes/{no}/answers", Role: auth.Operator, On: "/admin/disputes/{no}", When: openDispute,
		Title: kit.Text{"Reply", "回复"}, Done: kit.Text{"Reply sent.", "回复已发送，顾客可查看。"},
		Fields: []kit.Field{{Name: "text", Label: kit.Text{"Message to the shopper", "回复顾客"}, Kind: kit.Area, Required: true, Max: 500}},
	},
	{
		Path: "/admin/disputes/{no}/close", API: "POST /api/v1/admin/disputes/{no}/close", Role: auth.Operator, On: "/admin/disputes/{no}", When: openDispute,
		Title: kit.Text{"Close without refund", "不退款并关闭"}, Done: kit.Text{"The dispute is closed.", "纠纷已关闭。"}, Dangerous: true,
		Fields: []kit.Field{lastWord},
	},
	{
		Path: "/admin/disputes/{no}/refund", API: "POST /api/v1/admin/disputes/{no}/close", Role: auth.Operator, On: "/admin/disputes/{no}", When: openDispute, Again: true,
		Title: kit.Text{"Refund and close", "退款并关闭"}, Done: kit.Text{"Dispute closed and refund started.", "纠纷已关闭，退款已发起。"}, Dangerous: true,
		Fields: []kit.Field{
			lastWord,
			{Name: "refund.amount", Label: kit.Text{"Amount; empty: all that is left", "金额；留空则退全部余款"}, Kind: kit.Price, Zero: kit.Text{"Type an amount above zero, or leave it empty to refund all that is left.", "金额须大于 0；退全部余款请留空。"}},
			{Name: "refund.units", Label: kit.Text{"Returned goods (if empty: written off once shipped, else by the sale's rule)", "退款商品处理（留空：已发货的报损，未发货的按活动规则）"}, Kind: kit.Choice, Options: []string{"return", "write_off"}},
		},
		Body: withRefund, With: kit.Values("currency", "order.order.amount.currency"),
	},
}

var lastWord = kit.Field{Name: "reason", Label: kit.Text{"Closing message to the shopper", "给顾客的处理说明"}, Kind: kit.Area, Required: true, Max: 500}

var externalID = kit.Field{
	Name: "external_id", Label: kit.Text{"What your own system calls the order", "自有系统中的订单编号"}, Help: kit.Text{"Leave empty to remove it.", "留空则清除。"}, Max: external.MaxIDBytes, Blank: "",
}

// in applies to orders in one of the states.
func in(states ...any) func(map[string]any) bool { return kit.In("order.order.status", states...) }

func openDispute(data map[string]any) bool { return kit.Inside(data, "dispute.status") != "closed" }

// withRefund asks for a refund also where the form leaves all of it to the shop's rules.
func withRefund(_ url.Values, body map[string]any) map[string]any {
	if body["refund"] == nil {
		body["refund"] = map[string]any{}
	}
	return body
}
