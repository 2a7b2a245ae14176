package office

import (
	"net/url"

	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

// yuan is the currency of what is planned here; other ones are planned with the API.
const yuan = "CNY"

// Bounds of the API, so that a browser says so before a form is sent.
const (
	maxName  = 120
	maxSKU   = 64
	maxSpec  = 500
	maxImage = 500
	maxText  = 10_000
)

// planActs plan a sale: its first session and item in one form, more of them on its
// page while it can be edited.
var planActs = []kit.Act{
	{
		Path: activities + "/plan", API: "POST " + api + "/activities", Role: auth.Operator, On: activities, With: inYuan, Body: planned,
		Title: kit.Text{"Plan a sale", "新建活动"}, Then: activity, Done: kit.Text{"The draft is made. Shoppers see nothing until it is published.", "草稿已创建，发布前顾客不可见。"},
		Fields: append([]kit.Field{{Name: "name", Label: kit.Text{"Name of the sale", "活动名称"}, Required: true, Max: maxName}, opens, closes}, goods...),
	},
	{
		Path: activity + "/session", API: "POST " + api + "/sessions", Role: auth.Operator, On: activity, When: in("draft", "scheduled"), With: ofActivity,
		Title: kit.Text{"Add a session", "添加场次"}, Done: kit.Text{"The session is added; add its items.", "场次已添加，请继续添加商品。"},
		Fields: []kit.Field{{Name: "activity_id", Hidden: true}, sessionName, opens, closes, reserveFrom, reserveUntil, reserveCap},
	},
	{
		Path: "/admin/sessions/{id}/item", API: "POST " + api + "/items", Role: auth.Operator, Body: uncounted,
		Title: kit.Text{"Add an item", "添加商品"}, Done: kit.Text{"The item is added.", "商品已添加。"},
		Fields: append([]kit.Field{{Name: "session_id", Hidden: true}}, goods...),
	},
	{
		Path: activity + "/delete", API: "DELETE " + api + "/activities/{id}", Role: auth.Operator, On: activity, When: in("draft"), Then: activities, Dangerous: true,
		Title: kit.Text{"Delete the draft", "删除草稿"}, Done: kit.Text{"The draft is deleted.", "草稿已删除。"},
		Warning: kit.Text{"Its sessions and items go with it.", "其场次和商品将一并删除。"},
	},
}

var (
	sessionName  = kit.Field{Name: "name", Label: kit.Text{"Name", "场次名称"}, Required: true, Max: maxName}
	opens        = kit.Field{Name: "opens_at", Label: kit.Text{"Opens at", "开抢时间"}, Kind: kit.Moment, Required: true}
	closes       = kit.Field{Name: "closes_at", Label: kit.Text{"Closes at", "结束时间"}, Kind: kit.Moment, Required: true}
	reserveFrom  = kit.Field{Name: "reservation_opens_at", Label: kit.Text{"Reservations open at; empty: everybody may buy", "预约开始时间；留空则无需预约"}, Kind: kit.Moment}
	reserveUntil = kit.Field{Name: "reservation_closes_at", Label: kit.Text{"Reservations close at", "预约截止时间"}, Kind: kit.Moment}
	reserveCap   = kit.Field{Name: "reservation_cap", Label: kit.Text{"At most so many times the stock may reserve; empty: no limit", "预约人数上限为库存的几倍；留空不限"}, Kind: kit.Number}
	goods        = []kit.Field{
		{Name: "sku", Label: kit.Text{"SKU", "商品编码（SKU）"}, Required: true, Max: maxSKU},
		{Name: "title", Label: kit.Text{"Title", "商品名称"}, Required: true, Max: maxName},
		{Name: "spec", Label: kit.Text{"Variant", "规格"}, Max: maxSpec, Blank: ""},
		{Name: "image_url", Label: kit.Text{"Address of its picture", "图片地址"}, Max: maxImage, Blank: ""},
		{Name: "list_price", Label: kit.Text{"Price elsewhere", "原价"}, Kind: kit.Price, Required: true},
		{Name: "sale_price", Label: kit.Text{"Price in the sale", "秒杀价"}, Kind: kit.Price, Required: true},
		{Name: "stock", Label: kit.Text{"Units", "库存"}, Kind: kit.Whole},
		{Name: "backup", Label: kit.Text{"Units held back for late payments", "备用库存（用于逾期支付）"}, Kind: kit.Whole},
		{Name: "unlimited", Label: kit.Text{"Unlimited, nothing is counted", "不限量"}, Kind: kit.Tick, Blank: false},
		{Name: "limit_per_user", Label: kit.Text{"Units a shopper may hold; 0: as the sale says", "每人限购；0 为按活动规则"}, Kind: kit.Whole, Blank: 0},
	}
)

// inYuan gives a form's amounts their currency.
func inYuan(map[string]any) []any { return []any{"currency", yuan} }

// ofActivity is the activity of a new session.
func ofActivity(data map[string]any) []any {
	return []any{"activity_id", member(data, "activity", "id")}
}

// uncounted drops the stock of an unlimited item, which the API refuses.
func uncounted(_ url.Values, body map[string]any) map[string]any {
	if body["unlimited"] == true {
		delete(body, "stock")
		delete(body, "backup")
	}
	return body
}

// planned is an activity as long as its only session, with the item of the form.
func planned(form url.Values, body map[string]any) map[string]any {
	item := uncounted(form, body)
	name, from, to := body["name"], body["opens_at"], body["closes_at"]
	for _, of := range []string{"name", "opens_at", "closes_at"} {
		delete(item, of)
	}
	session := map[string]any{"name": name, "opens_at": from, "closes_at": to, "items": []any{item}}
	return map[string]any{"name": name, "starts_at": from, "ends_at": to, "sessions": []any{session}}
}
