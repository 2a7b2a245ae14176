// Package orderoffice describes the back office's pages about orders, disputes and parcels:
// which routes of the order module they show, and which forms change something. See
// platform/edge/office for how such a description becomes pages.
package orderoffice

import (
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"stampede/order/orderevent"
	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

//go:embed *.html
var files embed.FS

const (
	api    = "/api/v1/admin/orders"
	list   = "/admin/orders"
	detail = list + "/{no}"
)

// Section is the module's part of the office.
func Section() kit.Section {
	return kit.Section{
		Files: files, Words: words,
		Menu: append([]kit.Entry{
			{Path: list, Name: kit.Text{"Orders", "订单"}, Role: auth.Viewer},
			shippingEntry,
			{Path: "/admin/disputes", Name: kit.Text{"Disputes", "售后纠纷"}, Role: auth.Viewer},
		}, shopMenu...),
		Pages: append([]kit.Page{
			{Path: list, Title: kit.Text{"Orders", "订单"}, Role: auth.Viewer, Template: "orders.html", Filters: filters, Load: search},
			{Path: list + "/export", Role: auth.Viewer, Download: api + "/export", Filters: exported},
			{Path: detail, Title: kit.Text{"Order", "订单详情"}, Role: auth.Viewer, Template: "order.html", Reads: []kit.Read{{Name: "order", Path: api + "/{no}"}}},
			{Path: "/admin/disputes", Title: kit.Text{"Disputes", "售后纠纷"}, Role: auth.Viewer, Template: "disputes.html", Filters: disputeFilters, Reads: []kit.Read{{Name: "disputes", Path: "/api/v1/admin/disputes", Query: true}}},
			{Path: "/admin/disputes/{no}", Title: kit.Text{"Dispute", "纠纷详情"}, Role: auth.Viewer, Template: "dispute.html", Load: dispute},
		}, slices.Concat(shippingPages, shopPages)...),
		Acts: slices.Concat(forms, shippingForms, shopForms, couponForms),
	}
}

var statuses = []string{
	orderevent.StatusPending, orderevent.StatusPaid, orderevent.StatusCompleted, orderevent.StatusClosed, orderevent.StatusRefused,
	orderevent.StatusRefunding, orderevent.StatusRefunded, orderevent.StatusRefundFailed,
}

var disputeFilters = []kit.Field{{Name: "status", Label: kit.Text{"Status", "状态"}, Kind: kit.Choice, Options: []string{"open", "answered", "closed"}}}

// filters are the search form; the first is not the API's.
var filters = []kit.Field{
	{Name: "q", Label: kit.Text{"Number, phone or its last four digits, recipient, transaction, pickup code, external id, SKU", "订单号、手机号或后四位、收件人、流水号、提货码、外部编号、SKU"}},
	{Name: "status", Label: kit.Text{"Status", "状态"}, Kind: kit.Choice, Options: statuses},
	{Name: "created_from", Label: kit.Text{"Created from", "下单时间起"}, Kind: kit.Moment},
	{Name: "created_until", Label: kit.Text{"until", "止"}, Kind: kit.Moment},
	{Name: "paid_from", Label: kit.Text{"Paid from", "支付时间起"}, Kind: kit.Moment},
	{Name: "paid_until", Label: kit.Text{"until", "止"}, Kind: kit.Moment},
	{Name: "item_id", Label: kit.Text{"Item", "商品编号"}, Kind: kit.Whole},
	{Name: "session_id", Label: kit.Text{"Session", "场次编号"}, Kind: kit.Whole},
	{Name: "user_id", Label: kit.Text{"User", "用户编号"}, Kind: kit.Whole},
	{Name: "disputed", Label: kit.Text{"Only with an open dispute", "仅看有纠纷的"}, Kind: kit.Tick},
}

// exported are the filters of a download, which are all that a search may have used: one
// that was left out would export more than the list shows.
var exported = append([]kit.Field{{Name: "for"}, {Name: "to_ship"}, {Name: "order_no"}, {Name: "payment_no"}, {Name: "provider_txn"}, {Name: "pickup_code"}, {Name: "external_id"}, {Name: "recipient"}, {Name: "phone_tail"}, {Name: "phone"}, {Name: "sku"}}, filters[1:]...)

var (
	aNumber = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)
	aPhone  = regexp.MustCompile(`^\+?[0-9][0-9 -]{6,18}$`)
	aTail   = regexp.MustCompile(`^[0-9]{4}$`)
	aName   = regexp.MustCompile(`^(\p{Han}[\p{Han}·]{1,19}|\pL+( \pL+)+)$`)
	aCode   = regexp.MustCompile(`^[0-9A-Za-z]{4}-?[0-9A-Za-z]{4}-?[0-9A-Za-z]{4}$`)
)

// guesses are the filters that a text may be meant for, the likeliest first.
func guesses(q string) []string {
	switch {
	case aNumber.MatchString(q):
		return []string{"order_no", "payment_no", "provider_txn", "external_id"}
	case aPhone.MatchString(q):
		return []string{"phone", "provider_txn", "external_id", "sku"}
	case aTail.MatchString(q):
		return []string{"phone_tail", "provider_txn", "external_id", "sku"}
	case aName.MatchString(q):
		return []string{"recipient", "external_id", "sku"}
	case aCode.MatchString(q):
		return []string{"pickup_code", "provider_txn", "external_id", "sku"}
	default:
		return []string{"provider_txn", "external_id", "sku"}
	}
}

// search reads a page of orders. The one search field takes whatever an operator has
// at hand: it tries each filter that the text may be meant for until one finds orders.
func search(c *kit.Call) (map[string]any, error) {
	query := c.Filled(filters)
	q := strings.TrimSpace(query.Get("q"))
	query.Del("q")
	if q == "" {
		found, err := c.Get(api, query)
		if err != nil {
			return nil, err
		}
		backups, err := c.Get("/api/v1/admin/backups", nil)
		return map[string]any{"orders": found, "export": export(query), "backups": backups}, err
	}
	var found map[string]any
	for _, by := range guesses(q) {
		narrowed := url.Values{by: {q}}
		for name := range query {
			narrowed.Set(name, query.Get(name))
		}
		next, err := c.Get(api, narrowed)
		if p, refused := errors.AsType[*kit.Problem](err); refused && (p.Status == http.StatusUnprocessableEntity || p.Status == http.StatusForbidden) {
			continue // a viewer may not search by phone, and the text may be no phone
		}
		if err != nil {
			return nil, err
		}
		if found = next; len(rows(found)) > 0 || c.Next(found) != "" {
			return map[string]any{"orders": found, "export": export(narrowed)}, nil
		}
	}
	return map[string]any{"orders": found}, nil
}

// dispute reads a dispute and its order.
func dispute(c *kit.Call) (map[string]any, error) {
	found, err := c.Get("/api/v1/admin/disputes/"+url.PathEscape(c.Value("no")), nil)
	if err != nil {
		return nil, err
	}
	of, _ := found["order_no"].(string)
	about, err := c.Get(api+"/"+of, nil)
	return map[string]any{"dispute": found, "order": about}, err
}

func rows(list map[string]any) []any {
	data, _ := list["data"].([]any)
	return data
}

// export is the query of the download that has the list's orders. A template escapes the = and & of
// any other text.
func export(query url.Values) template.URL {
	q := url.Values{}
	for name := range query {
		if name != "cursor" {
			q.Set(name, query.Get(name))
		}
	}
	return template.URL(q.Encode()) //nolint:gosec // Encode escapes what was typed
}

// words are the states and reasons of orders and disputes as operators read them.
var words = map[string]kit.Text{
	"pending_payment": {"Unpaid", "待付款"}, "paid": {"Paid", "已付款"}, "completed": {"Completed", "已完成"}, "closed": {"Closed", "已关闭"},
	"to_ship": {"To be shipped", "待发货"}, "to_pick_up": {"Ready for pickup", "待提货"}, "shipped": {"Shipped", "已发货"},
	"refused": {"Refused", "未成交"}, "refunding": {"Refunding", "退款中"}, "refunded": {"Refunded", "已退款"}, "refund_failed": {"Refund failed", "退款失败"},
	"duplicate": {"Duplicate", "重复"}, "shortfall": {"Not enough stock", "库存不足"}, "interrupted": {"Interrupted", "处理中断"}, "blocked": {"Blacklisted", "黑名单"},
	"timeout": {"Payment expired", "超时未付款"}, "canceled": {"Canceled by the shopper", "顾客取消"}, "withdrawn": {"Canceled by the shop", "店铺取消"},
	"backup": {"Paid late, from backup stock", "逾期付款，使用备用库存"}, "taken-back": {"Refund returned by the bank", "退款被银行退回"},
	"open": {"Awaiting the shop", "待店铺处理"}, "answered": {"Awaiting the shopper", "待顾客回复"},
	"refund": {"With a refund", "退款"}, "no_refund": {"Without a refund", "不退款"},
	"return": {"Restock", "退回库存"}, "write_off": {"Write off", "报损"},
	"draft": {"Draft", "草稿"}, "active": {"Active", "启用"}, "stopped": {"Stopped", "已停止"},
	"registration": {"New sign-ups", "新用户注册时"}, "reservation": {"Shoppers who reserved", "预约后"},
	"delivery": {"Delivery", "快递"}, "pickup": {"Pickup", "到店自提"},
	"cancel": {"Canceled", "取消订单"}, "complete": {"Completed", "确认完成"}, "ship": {"Sent", "发货"}, "note": {"Note", "备注"},
	"shopper": {"Shopper", "顾客"}, "system": {"System", "系统"}, "shop": {"Shop", "店铺"}, "minted token": {"Command-line token", "命令行令牌"},
}
