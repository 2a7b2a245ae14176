// Package paymentoffice describes the back office's pages about money: refunds as a worklist,
// and the forms on an order's page that cancel it or pay back. See platform/edge/office
// for how such a description becomes pages.
package paymentoffice

import (
	"embed"
	"net/url"

	"stampede/order/orderevent"
	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

//go:embed *.html
var files embed.FS

const (
	onOrder = "/admin/orders/{no}"
	list    = "/admin/refunds"
	refunds = "/api/v1/admin/refunds"

	statements    = "/admin/statements"
	statementsAPI = "/api/v1/admin/statements"
)

var statuses = []string{"awaiting_approval", "requested", "failed", "succeeded", "rejected", "settled_by_hand", "charged_back", "replaced"}

var filters = []kit.Field{{Name: "status", Label: kit.Text{"Status", "状态"}, Kind: kit.Choice, Options: statuses}}

// Section is the module's part of the office.
func Section() kit.Section {
	return kit.Section{
		Files: files, Words: words,
		Menu: []kit.Entry{
			{Path: list, Name: kit.Text{"Refunds", "退款"}, Role: auth.Viewer},
			{Path: statements, Name: kit.Text{"Statements", "对账"}, Role: auth.Viewer, Later: true},
		},
		Pages: []kit.Page{
			{
				Path: list, Title: kit.Text{"Refunds", "退款"}, Role: auth.Viewer,
				Template: "refunds.html", Filters: filters, Reads: []kit.Read{{Name: "refunds", Path: refunds, Query: true}},
			},
			{
				Path: statements, Title: kit.Text{"Statements", "对账"}, Role: auth.Viewer,
				Template: "statements.html", Filters: days, Load: statement,
			},
		},
		Acts: acts,
	}
}

var days = []kit.Field{{Name: "date", Label: kit.Text{"Day", "日期"}, Kind: kit.Day}}

// statement reads how the providers' statements of a day differ from the ledger; of
// yesterday, which is the last whole day, unless the query names another one.
func statement(c *kit.Call) (map[string]any, error) {
	date := c.Query().Get("date")
	if date == "" {
		date = c.Today(-1)
	}
	found, err := c.Get(statementsAPI+"/"+url.PathEscape(date), nil)
	return map[string]any{"doc": found}, err
}

// applying settles what the comparison proposes, or only compares.
func applying(settle bool) func(url.Values, map[string]any) map[string]any {
	return func(url.Values, map[string]any) map[string]any { return map[string]any{"apply": settle} }
}

var acts = []kit.Act{
	{
		Path: statements + "/{date}/compare", API: "POST " + statementsAPI + "/{date}", Role: auth.Operator,
		On: statements, With: kit.Values("date", "doc.day"), Body: applying(false),
		Title: kit.Text{"Fetch and reconcile", "获取账单并核对"},
		Done:  kit.Text{"Fetching and reconciling. Refresh in a moment.", "正在获取账单并核对，请稍后刷新。"},
	},
	{
		Path: statements + "/{date}/settle", API: "POST " + statementsAPI + "/{date}", Role: auth.Operator,
		On: statements, With: kit.Values("date", "doc.day"), Body: applying(true), Again: true,
		Title:   kit.Text{"Apply suggestions", "按建议入账"},
		Done:    kit.Text{"Suggestions applied to the ledger.", "建议项已入账。"},
		Warning: kit.Text{"Transactions marked “Settle” are recorded as if the provider had reported them.", "标为“入账”的每笔款项将按支付回调入账。"},
	},
	{
		Path: onOrder + "/cancel", API: "POST /api/v1/admin/orders/{no}/cancel", Role: auth.Operator,
		On: onOrder, When: in(orderevent.StatusPending),
		Title:     kit.Text{"Cancel the order", "取消订单"},
		Done:      kit.Text{"The order is canceled and its units are free again.", "订单已取消，库存已释放。"},
		Dangerous: true,
		Warning:   kit.Text{"The shopper sees “Canceled by the shop”. It does not count as an unpaid order.", "顾客将看到“店铺取消”，不计入未付款记录。"},
		Fields:    []kit.Field{{Name: "reason", Label: kit.Text{"Reason (staff only)", "取消原因（仅员工可见）"}, Kind: kit.Area, Required: true, Max: 500}},
	},
	{
		Path: onOrder + "/refund", API: "POST /api/v1/admin/orders/{no}/refunds", Role: auth.Operator,
		On: onOrder, When: in(orderevent.StatusPaid, orderevent.StatusCompleted),
		Title:     kit.Text{"Refund", "退款"},
		Done:      kit.Text{"Refund started. See Payments for its status.", "退款已发起，进度见支付信息。"},
		Dangerous: true, Again: true,
		Warning: kit.Text{"Refunds above the shop's limit need approval from a second operator.", "超过店铺限额的退款需第二位运营人员审批。"},
		Fields: []kit.Field{
			{
				Name: "amount", Label: kit.Text{"Amount; empty: all that is left", "金额；留空则退全部余款"}, Kind: kit.Price,
				Zero: kit.Text{"Type an amount above zero, or leave it empty to refund all that is left.", "金额须大于 0；退全部余款请留空。"},
			},
			{Name: "reason", Label: kit.Text{"Reason (staff only)", "退款原因（仅员工可见）"}, Kind: kit.Area, Required: true, Max: 500},
			{
				Name: "units", Label: kit.Text{"Returned goods (if empty: written off once shipped, else by the sale's rule)", "退款商品处理（留空：已发货的报损，未发货的按活动规则）"},
				Kind: kit.Choice, Options: []string{"return", "write_off"},
			},
		},
		With: kit.Values("currency", "order.order.amount.currency"),
	},
	{
		Path: list + "/{no}/approve", API: "POST " + refunds + "/{no}/approve", Role: auth.Operator, Again: true,
		Title: kit.Text{"Approve", "批准"}, Done: kit.Text{"Refund approved and requested.", "已批准，退款已发起。"},
		Warning: kit.Text{"The money is returned to the shopper. You cannot approve a refund that you requested.", "款项将退回顾客；发起人不能自己审批。"},
	},
	{
		Path: list + "/{no}/reject", API: "POST " + refunds + "/{no}/reject", Role: auth.Operator,
		Title: kit.Text{"Reject", "驳回"}, Done: kit.Text{"Refund rejected. The order is unchanged.", "已驳回，订单状态不变。"},
	},
	{
		Path: list + "/{no}/retry", API: "POST " + refunds + "/{no}/retry", Role: auth.Operator, Again: true,
		Title:   kit.Text{"Retry", "重试"},
		Done:    kit.Text{"Requested again under a new refund number.", "已用新的退款单号重新发起。"},
		Warning: kit.Text{"A new refund of the same amount replaces this one.", "将以一笔新的退款代替本笔。"},
	},
	{
		Path: list + "/{no}/settle", API: "POST " + refunds + "/{no}/settle-by-hand", Role: auth.Operator, Again: true, Dangerous: true,
		Title:   kit.Text{"Mark as refunded offline", "登记线下退款"},
		Done:    kit.Text{"Marked as refunded offline.", "已登记线下退款。"},
		Warning: kit.Text{"The refund cannot be retried afterwards.", "登记后不能再重试。"},
		Fields:  []kit.Field{{Name: "receipt", Label: kit.Text{"Receipt number", "凭证号"}, Required: true, Max: 100}},
	},
	{
		Path: list + "/{no}/charged-back", API: "POST " + refunds + "/{no}/end-by-chargeback", Role: auth.Operator, Again: true, Dangerous: true,
		Title:   kit.Text{"Taken by a chargeback", "由拒付抵偿"},
		Done:    kit.Text{"Marked as taken by a chargeback.", "已登记：顾客已通过拒付收回款项。"},
		Warning: kit.Text{"Only if the shop has lost a chargeback of this payment. The refund cannot be retried afterwards.", "仅适用于店铺已败诉的拒付；登记后不能再重试。"},
	},
}

// in applies to orders in one of the states.
func in(states ...any) func(map[string]any) bool { return kit.In("order.order.status", states...) }

// words are the states of payments and refunds as operators read them.
var words = map[string]kit.Text{
	"created": {"Open at the provider", "待付款"}, "captured": {"Paid", "已付款"},
	"awaiting_approval": {"Awaiting approval", "待审批"}, "requested": {"Processing", "处理中"},
	"succeeded": {"Refunded", "已退款"}, "failed": {"Failed", "失败"},
	"rejected": {"Rejected", "已驳回"}, "settled_by_hand": {"Refunded offline", "已线下退款"},
	"charged_back": {"Taken by a chargeback", "已由拒付抵偿"},
	"replaced":     {"Replaced by a new refund", "已被新退款代替"},
	"late":         {"Paid too late", "逾期付款"}, "mismatch": {"Wrong amount", "金额不符"}, "operator": {"Operator", "运营"},
	"dispute": {"Dispute", "纠纷"},
	"settle":  {"Settle", "入账"}, "look": {"Needs review", "需人工核查"},
	"missing": {"Missing in the ledger", "系统缺少"}, "extra": {"Only in the ledger", "账单缺少"},
	"different": {"Different", "金额不同"},
	"fetching":  {"Being fetched", "获取中"}, "compared": {"Compared", "已核对"},
	"capture": {"Payment", "收款"}, "refund_reversal": {"Refund returned", "退款退回"},
	"chargeback": {"Chargeback", "拒付"}, "chargeback_reversal": {"Chargeback returned", "拒付退回"},
	"inquiry": {"The bank asks", "银行查询中"}, "won": {"Won", "胜诉"}, "lost": {"Lost", "败诉"},
}
