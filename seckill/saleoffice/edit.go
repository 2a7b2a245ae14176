package saleoffice

import (
	"net/url"
	"slices"

	kit "stampede/platform/edge/office"
)

// editActs change what was planned: everything until 60 s before the opening, and from
// then on what can be corrected without taking anything from shoppers who came for it.
var editActs = []kit.Act{
	{
		Path: activity + "/edit", API: "PATCH " + api + "/activities/{id}", On: activity, When: in("draft", "scheduled"), With: ruled, Body: checkout,
		Title: kit.Text{"Edit sale", "编辑活动"}, Button: save, Done: kit.Text{"Sale saved.", "活动已修改。"},
		Fields: []kit.Field{
			version,
			saleName,
			{Name: "starts_at", Label: kit.Text{"Sale starts (before its first session)", "活动开始时间（各场次不早于此）"}, Kind: kit.Moment, Required: true},
			{Name: "ends_at", Label: kit.Text{"Sale ends (after its last session)", "活动结束时间（各场次不晚于此）"}, Kind: kit.Moment, Required: true},
			saleLimit,
			{Name: "one_item_per_user", Label: kit.Text{"One item per shopper across the sale", "活动内每人限购一种商品"}, Kind: kit.Tick, Blank: false},
			{Name: "payment_window_seconds", Label: kit.Text{"Payment window (minutes)", "付款时限（分钟）"}, Kind: kit.Minutes},
			{Name: "rebuy_after_close", Label: kit.Text{"Allow another purchase after an unpaid order", "未付款订单关闭后可再次抢购"}, Kind: kit.Tick, Blank: false},
			{
				Name: "human_check", Label: kit.Text{"Human check", "人机验证"}, Kind: kit.Choice,
				Options: []string{"none", "pow", "slide", "verifier"}, Words: map[string]kit.Text{"none": {"None", "不验证"}}, Required: true,
			},
			{
				Name: "exclusive", Label: kit.Text{"Exclusive: shoppers can join only one exclusive sale at a time", "独占活动：参与者不可同时参与其他独占活动"},
				Kind: kit.Tick, Blank: false,
			},
			{
				Name: "refund_within_hours", Label: kit.Text{"Self-service refund window (hours after payment, 0 for none)", "自助退款时限（支付后小时数，0 为不支持）"},
				Kind: kit.Whole, Blank: 0,
			},
			{
				Name: "refund_units", Label: kit.Text{"When an order is refunded", "退款后商品"},
				Kind: kit.Choice, Options: []string{"return", "write_off"}, Required: true,
			},
			{Name: "points_rate", Label: kit.Text{"Points per 1.00 paid (0 for none)", "每消费 1 元赠送积分（0 为不赠送）"}, Kind: kit.Whole, Blank: 0},
			{Name: byCourier, Label: kit.Text{"Delivery", "快递配送"}, Kind: kit.Tick},
			{Name: atStore, Label: kit.Text{"Store pickup", "到店自提"}, Kind: kit.Tick},
			{Name: "checkout.freight", Label: kit.Text{"Shipping fee", "运费"}, Kind: kit.Price},
			{
				Name: "checkout.free_from", Label: kit.Text{"Free shipping over", "满额包邮"}, Kind: kit.Price,
				Zero: kit.Text{"Leave it empty if delivery is never free; leave the freight empty if it always is.", "没有满额包邮请留空；全场包邮请将运费留空。"},
			},
			asked("name", kit.Text{"Shopper's name", "收货人姓名"}), asked("phone", kit.Text{"Shopper's phone", "联系电话"}),
			asked("address", kit.Text{"Shopper's address", "收货地址"}), asked("note", kit.Text{"A note to the shop", "买家留言"}),
		},
	},
	{
		Path: activity + "/correct", API: "PATCH " + api + "/activities/{id}", On: activity, When: in("running"), With: activityValues,
		Title: kit.Text{"Edit name", "修改名称"}, Button: save, Done: kit.Text{"Name saved.", "名称已修改。"},
		Fields: []kit.Field{version, saleName},
	},
	{
		Path: activity + "/rules", API: "PUT " + api + "/activities/{id}/rules", On: activity, When: in("draft", "scheduled", "running"),
		With:  kit.Values("of", "rules"),
		Title: kit.Text{"Sale rules", "活动规则"}, Button: save, Done: kit.Text{"The rules are shown on every item page.", "活动规则已更新，顾客可在商品页查看。"},
		Fields: []kit.Field{version, {Name: "rules", Label: kit.Text{"Sale rules (Markdown)", "活动规则（支持 Markdown）"}, Kind: kit.Area, Max: maxText, Blank: ""}},
	},
	{
		Path: "/admin/sessions/{id}/edit", API: "PATCH " + api + "/sessions/{id}", Body: unreserved,
		Title: kit.Text{"Edit session", "编辑场次"}, Button: save, Done: kit.Text{"Session saved.", "场次已修改。"},
		Fields: []kit.Field{version, sessionName, opens, closes, reserveFrom, reserveUntil, reserveCap},
	},
	{
		Path: "/admin/sessions/{id}/repeat", API: "POST " + api + "/sessions/{id}/repeat",
		Title: kit.Text{"Repeat daily", "每日重复"}, Done: kit.Text{"Sessions created for each day. Existing sessions are unchanged.", "已按天生成场次，原有场次保持不变。"},
		Fields: []kit.Field{
			{Name: "last_day", Label: kit.Text{"Repeat until (inclusive, same time)", "重复至（含当天，时间相同）"}, Kind: kit.Day, Required: true},
			{Name: "extend_activity", Label: kit.Text{"Extend the sale if needed", "如超出活动时间，自动延长活动"}, Kind: kit.Tick},
		},
	},
	{
		Path: "/admin/sessions/{id}/delete", API: "DELETE " + api + "/sessions/{id}", Dangerous: true,
		Title: kit.Text{"Delete the session", "删除场次"}, Done: kit.Text{"The session is deleted.", "场次已删除。"},
		Warning: kit.Text{"Its items are deleted too.", "其商品将一并删除。"},
	},
	{
		Path: item + "/edit", API: "PATCH " + api + "/items/{id}", On: item, When: in("draft", "scheduled"), With: kit.Values("of", "item"), Body: uncounted,
		Title: kit.Text{"Edit item", "编辑商品"}, Button: save, Done: kit.Text{"Item saved.", "商品已修改。"},
		Fields: append([]kit.Field{version}, goods...),
	},
	{
		Path: item + "/correct", API: "PATCH " + api + "/items/{id}", On: item, When: in("running"), With: kit.Values("of", "item"),
		Title: kit.Text{"Edit item details", "修改商品信息"}, Button: save, Done: kit.Text{"Item saved.", "商品已修改。"},
		Warning: kit.Text{"Prices and limits cannot change during the sale.", "活动进行中，价格与限购不可修改。"},
		Fields:  []kit.Field{version, goods[1], goods[2], goods[3]},
	},
	{
		Path: item + "/detail", API: "PUT " + api + "/items/{id}/detail", On: item, When: in("draft", "scheduled", "running"),
		With:  kit.Values("of", "detail"),
		Title: kit.Text{"Description and images", "图文详情"}, Button: save, Done: kit.Text{"Item details saved.", "图文详情已更新。"},
		Fields: []kit.Field{
			version,
			{Name: "description", Label: kit.Text{"Description (Markdown)", "商品描述（支持 Markdown）"}, Kind: kit.Area, Max: maxText, Blank: ""},
			{Name: "images", Label: kit.Text{"Image URLs, one per line, up to 9", "图片地址，每行一个，最多 9 张"}, Kind: kit.Lines, Blank: []string{}},
		},
	},
	{
		Path: "/admin/items/{id}/delete", API: "DELETE " + api + "/items/{id}", Dangerous: true,
		Title: kit.Text{"Delete", "删除"}, Done: kit.Text{"The item is deleted.", "商品已删除。"},
		Warning: kit.Text{"The item is removed from the session.", "该商品将从场次中移除。"},
	},
}

var save = kit.Text{"Save", "保存"}

// The ways in which goods reach the shopper, each a box of the form.
const (
	byCourier = "delivery"
	atStore   = "pickup"
)

func asked(name string, label kit.Text) kit.Field {
	return kit.Field{Name: "checkout." + name, Label: label, Kind: kit.Choice, Options: []string{"optional", "required"}}
}

// ruled are the values of an activity's form. A window that is a share of the session
// has no length in minutes: the field is empty then, which keeps it.
func ruled(data map[string]any) []any {
	values := []any{"of", data["activity"], "currency", currencyOf(data)}
	if kit.Inside(data, "activity.payment_window_share") != nil {
		values = append(values, "payment_window_seconds", "")
	}
	ways, _ := kit.Inside(data, "activity.checkout.ways").([]any)
	for _, way := range ways {
		values = append(values, way, "true")
	}
	return values
}

// currencyOf is the currency of an activity's items; one of a currency has no others.
func currencyOf(data map[string]any) any {
	sessions, _ := kit.Inside(data, "activity.sessions").([]any)
	for _, s := range sessions {
		session, _ := s.(map[string]any)
		items, _ := session["items"].([]any)
		for _, i := range items {
			item, _ := i.(map[string]any)
			return kit.Inside(item, "list_price.currency")
		}
	}
	return yuan
}

// checkout gives the ways of the form as the API takes them. The whole of it is sent,
// because the API replaces the whole of it.
func checkout(form url.Values, body map[string]any) map[string]any {
	settled, _ := body["checkout"].(map[string]any)
	if settled == nil {
		settled = map[string]any{}
	}
	ways := []string{}
	for _, way := range []string{byCourier, atStore} {
		if delete(body, way); form.Get(way) != "" {
			ways = append(ways, way)
		}
	}
	settled["ways"], body["checkout"] = ways, settled
	return body
}

// unreserved removes the reservation of a session whose form has none.
func unreserved(form url.Values, body map[string]any) map[string]any {
	if form.Get(reserveFrom.Name) == "" && form.Get(reserveUntil.Name) == "" {
		delete(body, reserveCap.Name)
		body["without_reservation"] = true
	}
	return body
}

// acts are the forms, in the order in which a page lists them.
var acts = []kit.Act{
	{
		Path: activity + "/pause", API: "POST " + api + "/activities/{id}/pause", On: activity, When: all(in("running", "scheduled"), kit.In("activity.paused", false)),
		Title: kit.Text{"Pause the sale", "暂停活动"}, Done: kit.Text{"The sale is paused on every instance.", "活动已在所有实例上暂停。"},
	},
	{
		Path: activity + "/resume", API: "POST " + api + "/activities/{id}/resume", On: activity, When: all(in("running", "scheduled"), kit.In("activity.paused", true)),
		Title: kit.Text{"Resume the sale", "恢复活动"}, Done: kit.Text{"The sale is live again.", "活动已恢复。"},
	},
	{
		Path: activity + "/publish", API: "POST " + api + "/activities/{id}/publish", On: activity, When: in("draft"),
		Title: kit.Text{"Publish", "发布"}, Then: activity + "/preflight", Done: kit.Text{"The sale is published.", "活动已发布。"},
		Warning: kit.Text{"Shoppers can see it once it is published. Run the checks first.", "发布后顾客即可看到，建议先做开售检查。"},
		Before:  kit.Entry{Path: activity + "/preflight", Name: kit.Text{"Pre-sale checks", "开售检查"}},
	},
	{
		Path: activity + "/extend", API: "PATCH " + api + "/activities/{id}", On: activity, When: in("running"), With: activityValues,
		Title:  kit.Text{"Extend sale", "延长活动"},
		Done:   kit.Text{"The sale is extended. Extend its sessions too if they should sell longer.", "结束时间已修改；如需延长场次请一并修改。"},
		Fields: []kit.Field{version, {Name: "ends_at", Label: kit.Text{"End time", "结束时间"}, Kind: kit.Moment, Required: true}},
	},
	{
		Path: activity + "/clone", API: "POST " + api + "/activities/{id}/clone", On: activity, With: activityValues,
		Title: kit.Text{"Duplicate", "复制活动"}, Then: activity,
		Done: kit.Text{"Copied to a new draft with the same rules, sessions and items, at later times.", "已复制为草稿：规则、场次和商品相同，时间已顺延。"},
		Fields: []kit.Field{
			{Name: "name", Label: kit.Text{"Name", "名称"}, Required: true, Max: maxName},
			{Name: "shift_days", Label: kit.Text{"Move dates by days", "日期顺延天数"}, Kind: kit.Whole, Required: true},
		},
	},
	{
		Path: activity + "/terminate", API: "POST " + api + "/activities/{id}/terminate", On: activity, When: in("scheduled", "running"), With: activityValues,
		Title: kit.Text{"End sale permanently", "终止活动"}, Done: kit.Text{"The sale has ended permanently.", "活动已终止。"}, Dangerous: true, Typed: true,
		Warning: kit.Text{
			"This cannot be undone: no new orders, and the sale cannot be restarted. Existing orders can still be paid. " +
				"To stop selling for a while, pause the sale instead.",
			"终止后无法再次开始，已有订单仍可支付。如只需临时停止，请使用暂停。",
		},
	},
	{
		Path: "/admin/sessions/{id}/extend", API: "PATCH " + api + "/sessions/{id}",
		Title: kit.Text{"Extend session", "延长场次"}, Done: kit.Text{"The session is extended.", "场次结束时间已修改。"},
		Fields: []kit.Field{version, {Name: "closes_at", Label: kit.Text{"End time", "结束时间"}, Kind: kit.Moment, Required: true}},
	},
	{
		Path: item + "/pause", API: "POST " + api + "/items/{id}/pause", On: item, When: all(in("running", "scheduled"), kit.In("item.paused", false)),
		Title: kit.Text{"Pause this item", "暂停该商品"}, Done: kit.Text{"The item is paused. Other items keep selling.", "该商品已暂停，其他商品继续销售。"},
	},
	{
		Path: item + "/resume", API: "POST " + api + "/items/{id}/resume", On: item, When: all(in("running", "scheduled"), kit.In("item.paused", true)),
		Title: kit.Text{"Resume this item", "恢复该商品"}, Done: kit.Text{"The item is on sale again.", "该商品已恢复销售。"},
	},
	{
		Path: item + "/stock", API: "POST " + api + "/items/{id}/stock", On: item, When: in("scheduled", "running"),
		Title: kit.Text{"Adjust stock", "调整库存"}, Done: kit.Text{"The stock is adjusted.", "库存已调整。"},
		Fields: []kit.Field{{Name: "add", Label: kit.Text{"Add or remove units (use a minus sign to remove)", "调整数量（减少填负数）"}, Kind: kit.Whole, Required: true}},
	},
	{
		Path: item + "/backup", API: "POST " + api + "/items/{id}/backup", On: item, When: in("running", "ended", "terminated"),
		Title: kit.Text{"Move to backup stock", "调整备用库存"}, Done: kit.Text{"The units are moved.", "备用库存已调整。"},
		Fields: []kit.Field{{
			Name: "units", Kind: kit.Whole, Required: true,
			Label: kit.Text{"Units to move to the backup stock (use a minus sign to put back on sale)", "转入备用的数量（转回填负数）"},
		}},
	},
	{
		Path: item + "/rate", API: "PUT " + api + "/items/{id}/admission", On: item, When: in("scheduled", "running"),
		Title: kit.Text{"Let shoppers in evenly", "匀速放行"}, Done: kit.Text{"The rate applies to all instances together.", "放行速率已生效，所有实例合计。"},
		Fields: []kit.Field{{
			Name: "per_second", Kind: kit.Whole, Blank: kit.Null,
			Label: kit.Text{"Shoppers let in per second, on all instances together (0 lets none in, empty is unlimited)", "每秒放行人数，所有实例合计；0 为不放行；留空为不限"},
		}},
	},
	{
		Path: item + "/write-off", API: "POST " + api + "/items/{id}/write-off", On: item, When: in("scheduled", "running"),
		Title: kit.Text{"Write off stock", "报损"}, Done: kit.Text{"The units are written off.", "已报损。"}, Dangerous: true,
		Warning: kit.Text{"Written-off units count as lost and cannot be sold again.", "报损的商品计为损失，不能再销售。"},
		Fields: []kit.Field{
			{Name: "units", Label: kit.Text{"Units", "数量"}, Kind: kit.Whole, Required: true},
			{Name: "reason", Label: kit.Text{"Reason (for the audit log)", "原因（写入操作日志）"}, Kind: kit.Area, Required: true, Max: 500},
		},
	},
}

// version makes an edit of something that has changed meanwhile fail.
var version = kit.Field{Name: "version", Kind: kit.Whole, Hidden: true, Required: true}

type condition = func(map[string]any) bool

func all(conditions ...condition) condition {
	return func(data map[string]any) bool {
		return !slices.ContainsFunc(conditions, func(holds condition) bool { return !holds(data) })
	}
}

// in applies to activities in one of the states, and to their items.
func in(states ...any) condition { return kit.In("activity.status", states...) }

// activityValues are what the forms of an activity begin with.
var activityValues = kit.Values("of", "activity", "typed", "activity.name")
