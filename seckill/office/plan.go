package office

import (
	"net/url"

	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

// yuan is the currency of what is planned here; other ones are planned with the API.
const yuan = "CNY"

// planActs plan a sale: its first session and item in one form, more of them on its
// page while it can be edited.
var planActs = []kit.Act{
	{
		Path: activities + "/plan", API: "POST " + api + "/activities", Role: auth.Operator, On: activities, With: inYuan, Body: planned,
		Title: kit.Text{"Plan a sale", "新建活动"}, Done: kit.Text{"The draft is the first of the list. Shoppers see nothing until it is published.", "草稿位于列表首位，发布前顾客不可见。"},
		Fields: append([]kit.Field{{Name: "name", Label: kit.Text{"Name of the sale", "活动名称"}, Required: true, Max: 100}, opens, closes}, goods...),
	},
	{
		Path: activity + "/session", API: "POST " + api + "/sessions", Role: auth.Operator, On: activity, When: in("draft", "scheduled"), With: ofActivity,
		Title: kit.Text{"Add a session", "添加场次"}, Done: kit.Text{"The session is added; add its items.", "场次已添加，请继续添加商品。"},
		Fields: []kit.Field{{Name: "activity_id", Hidden: true}, {Name: "name", Label: kit.Text{"Name", "场次名称"}, Required: true, Max: 100}, opens, closes},
	},
	{
		Path: "/admin/sessions/{id}/item", API: "POST " + api + "/items", Role: auth.Operator, Body: priced,
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
	opens  = kit.Field{Name: "opens_at", Label: kit.Text{"Opens at", "开抢时间"}, Kind: kit.Moment, Required: true}
	closes = kit.Field{Name: "closes_at", Label: kit.Text{"Closes at", "结束时间"}, Kind: kit.Moment, Required: true}
	goods  = []kit.Field{
		{Name: "sku", Label: kit.Text{"SKU", "SKU"}, Required: true, Max: 64},
		{Name: "title", Label: kit.Text{"Title", "商品名称"}, Required: true, Max: 200},
		{Name: "spec", Label: kit.Text{"Variant", "规格"}, Max: 200},
		{Name: "image_url", Label: kit.Text{"Address of its picture", "图片地址"}, Max: 500},
		{Name: "list_price.amount", Label: kit.Text{"Price elsewhere, in yuan", "原价（元）"}, Kind: kit.Amount, Required: true},
		{Name: "sale_price.amount", Label: kit.Text{"Price in the sale, in yuan", "秒杀价（元）"}, Kind: kit.Amount, Required: true},
		{Name: "stock", Label: kit.Text{"Units", "库存"}, Kind: kit.Whole, Required: true},
	}
)

// inYuan gives a form's amounts their currency.
func inYuan(map[string]any) []any { return []any{"currency", yuan} }

// ofActivity is the activity of a new session.
func ofActivity(data map[string]any) []any {
	return []any{"activity_id", member(data, "activity", "id")}
}

// priced gives the prices of an item their currency.
func priced(_ url.Values, body map[string]any) map[string]any {
	for _, name := range []string{"list_price", "sale_price"} {
		if price, ok := body[name].(map[string]any); ok {
			price["currency"] = yuan
		}
	}
	return body
}

// planned is an activity as long as its only session, with the item of the form.
func planned(form url.Values, body map[string]any) map[string]any {
	item := priced(form, body)
	name, from, to := body["name"], body["opens_at"], body["closes_at"]
	for _, of := range []string{"name", "opens_at", "closes_at"} {
		delete(item, of)
	}
	session := map[string]any{"name": name, "opens_at": from, "closes_at": to, "items": []any{item}}
	return map[string]any{"name": name, "starts_at": from, "ends_at": to, "sessions": []any{session}}
}
