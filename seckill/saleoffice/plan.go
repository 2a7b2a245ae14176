package saleoffice

import (
	"fmt"
	"net/url"
	"time"

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
		Path: activities + "/plan", API: "POST " + api + "/activities", Make: planned,
		Title: kit.Text{"Create sale", "新建活动"}, Then: activity, Done: kit.Text{"Draft saved. Shoppers cannot see it until it is published.", "草稿已创建，发布前顾客不可见。"},
		Fields: ofSale, Rows: rows,
	},
	{
		Path: activity + "/session", API: "POST " + api + "/sessions", On: activity, When: in("draft", "scheduled"), With: kit.Values("activity_id", "activity.id"),
		Title: kit.Text{"Add a session", "添加场次"}, Done: kit.Text{"The session is added; add its items.", "场次已添加，请继续添加商品。"},
		Fields: append([]kit.Field{{Name: "activity_id", Hidden: true}}, rows["session"]...),
	},
	{
		Path: "/admin/sessions/{id}/item", API: "POST " + api + "/items", Body: uncounted,
		Title: kit.Text{"Add an item", "添加商品"}, Done: kit.Text{"The item is added.", "商品已添加。"},
		Fields: append([]kit.Field{{Name: "session_id", Hidden: true}}, goods...),
	},
	{
		Path: activity + "/delete", API: "DELETE " + api + "/activities/{id}", On: activity, When: in("draft"), Then: activities, Dangerous: true,
		Title: kit.Text{"Delete the draft", "删除草稿"}, Done: kit.Text{"The draft is deleted.", "草稿已删除。"},
		Warning: kit.Text{"Its sessions and items are deleted too.", "其场次和商品将一并删除。"},
	},
}

var (
	// ofSale are what most sales set; a draft's page has the rest.
	ofSale = []kit.Field{
		saleName, saleLimit,
		{Name: "payment_window_seconds", Label: kit.Text{"Payment window (minutes)", "付款时限（分钟）"}, Kind: kit.Minutes, Required: true},
		{Name: "refund_within_hours", Label: kit.Text{"Self-service refund window (hours after payment, 0 for none)", "自助退款时限（支付后小时数，0 为不支持）"}, Kind: kit.Whole},
		{Name: "points_rate", Label: kit.Text{"Points per 1.00 paid (0 for none)", "每消费 1 元赠送积分（0 为不赠送）"}, Kind: kit.Whole},
		{Name: "rules", Label: kit.Text{"Sale rules (Markdown)", "活动规则（支持 Markdown）"}, Kind: kit.Area, Max: maxText},
	}
	saleName     = kit.Field{Name: "name", Label: kit.Text{"Sale name", "活动名称"}, Required: true, Max: maxName}
	saleLimit    = kit.Field{Name: "limit_per_user", Label: kit.Text{"Limit per shopper, per item", "每人每件商品限购"}, Kind: kit.Whole, Required: true}
	sessionName  = kit.Field{Name: "name", Label: kit.Text{"Name", "场次名称"}, Required: true, Max: maxName}
	opens        = kit.Field{Name: "opens_at", Label: kit.Text{"Start time", "开抢时间"}, Kind: kit.Moment, Required: true}
	closes       = kit.Field{Name: "closes_at", Label: kit.Text{"End time", "结束时间"}, Kind: kit.Moment, Required: true}
	reserveFrom  = kit.Field{Name: "reservation_opens_at", Label: kit.Text{"Reservations open (leave empty if none are needed)", "预约开始时间（留空则无需预约）"}, Kind: kit.Moment}
	reserveUntil = kit.Field{Name: "reservation_closes_at", Label: kit.Text{"Reservations close", "预约截止时间"}, Kind: kit.Moment}
	reserveCap   = kit.Field{
		Name: "reservation_cap", Kind: kit.Number, Blank: 0,
		Label: kit.Text{"Reservation cap, as a multiple of stock (empty is unlimited)", "预约人数上限（库存的倍数，留空不限）"},
	}
	goods = []kit.Field{
		{Name: "sku", Label: kit.Text{"SKU", "商品编码（SKU）"}, Required: true, Max: maxSKU},
		{Name: "title", Label: kit.Text{"Title", "商品名称"}, Required: true, Max: maxName},
		{Name: "spec", Label: kit.Text{"Variant", "规格"}, Max: maxSpec, Blank: ""},
		{Name: "image_url", Label: kit.Text{"Image URL", "图片地址"}, Max: maxImage, Blank: ""},
		{Name: "list_price", Label: kit.Text{"List price", "原价"}, Kind: kit.Price, Required: true},
		{Name: "sale_price", Label: kit.Text{"Sale price", "秒杀价"}, Kind: kit.Price, Required: true},
		{Name: "stock", Label: kit.Text{"Stock", "库存"}, Kind: kit.Whole},
		{Name: "backup", Label: kit.Text{"Backup stock (for late payments)", "备用库存（用于逾期支付）"}, Kind: kit.Whole},
		{Name: "unlimited", Label: kit.Text{"Unlimited stock", "不限量"}, Kind: kit.Tick, Blank: false},
		{Name: "limit_per_user", Label: kit.Text{"Limit per shopper (0 uses the sale's limit)", "每人限购（0 为按活动规则）"}, Kind: kit.Whole, Blank: 0},
	}
	rows = map[string][]kit.Field{"session": {sessionName, opens, closes, reserveFrom, reserveUntil, reserveCap}, "item": goods}
)

// uncounted drops the stock of an unlimited item, which the API refuses.
func uncounted(_ url.Values, body map[string]any) map[string]any {
	if body["unlimited"] == true {
		delete(body, "stock")
		delete(body, "backup")
	}
	return body
}

// planned is the sale of the form: its sessions and their items, in the order in which
// the API numbers them, so that what it refuses is shown at its field. It lasts as long
// as its sessions.
func planned(c *kit.Call, form url.Values) (body map[string]any, where func(location string) string, err error) {
	if body, err = c.ReadRow(ofSale, form, ""); err != nil {
		return nil, nil, err
	}
	sessions, lasts := []any{}, span{}
	for _, at := range kit.RowsIn(form, "sessions") {
		session, err := c.ReadRow(rows["session"], form, at+".")
		if err != nil {
			return nil, nil, err
		}
		items := []any{}
		for _, at := range kit.RowsIn(form, at+".items") {
			item, err := c.ReadRow(rows["item"], form, at+".")
			if err != nil {
				return nil, nil, err
			}
			items = append(items, uncounted(form, item))
		}
		session["items"] = items
		sessions = append(sessions, session)
		opens, _ := time.Parse(time.RFC3339, fmt.Sprint(session["opens_at"])) // ReadRow made both
		closes, _ := time.Parse(time.RFC3339, fmt.Sprint(session["closes_at"]))
		lasts.over(opens, closes)
	}
	body["sessions"], body["starts_at"], body["ends_at"] = sessions, lasts.from.In(c.InZone()), lasts.to.In(c.InZone())
	return body, func(string) string { return "" }, nil
}

// span is the time of an activity.
type span struct{ from, to time.Time }

// over extends it over a session.
func (s *span) over(opens, closes time.Time) {
	if s.from.IsZero() || opens.Before(s.from) {
		s.from = opens
	}
	if closes.After(s.to) {
		s.to = closes
	}
}
