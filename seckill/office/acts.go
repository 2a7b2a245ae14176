package office

import (
	"slices"

	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

// acts are the forms, in the order in which a page lists them.
var acts = []kit.Act{
	{
		Path: activity + "/pause", API: "POST " + api + "/activities/{id}/pause", Role: auth.Operator, On: activity, When: all(in("running", "scheduled"), paused(false)),
		Title: kit.Text{"Pause the sale", "暂停活动"}, Done: kit.Text{"The sale is paused on every instance.", "活动已在所有实例上暂停。"},
	},
	{
		Path: activity + "/resume", API: "POST " + api + "/activities/{id}/resume", Role: auth.Operator, On: activity, When: all(in("running", "scheduled"), paused(true)),
		Title: kit.Text{"Resume the sale", "恢复活动"}, Done: kit.Text{"The sale is live again.", "活动已恢复。"},
	},
	{
		Path: activity + "/publish", API: "POST " + api + "/activities/{id}/publish", Role: auth.Operator, On: activity, When: in("draft"),
		Title: kit.Text{"Publish", "发布"}, Then: activity + "/preflight", Done: kit.Text{"The sale is published.", "活动已发布。"},
		Warning: kit.Text{"Shoppers can see it once it is published. Run the checks first.", "发布后顾客即可看到，建议先做开售检查。"},
		Before:  kit.Entry{Path: activity + "/preflight", Name: kit.Text{"Pre-sale checks", "开售检查"}},
	},
	{
		Path: activity + "/extend", API: "PATCH " + api + "/activities/{id}", Role: auth.Operator, On: activity, When: in("running"), With: activityValues,
		Title: kit.Text{"Extend sale", "延长活动"}, Done: kit.Text{"The sale is extended. Extend its sessions too if they should sell longer.", "结束时间已修改；如需延长场次请一并修改。"},
		Fields: []kit.Field{version, {Name: "ends_at", Label: kit.Text{"End time", "结束时间"}, Kind: kit.Moment, Required: true}},
	},
	{
		Path: activity + "/clone", API: "POST " + api + "/activities/{id}/clone", Role: auth.Operator, On: activity, With: activityValues,
		Title: kit.Text{"Duplicate", "复制活动"}, Then: activity, Done: kit.Text{"Copied to a new draft with the same rules, sessions and items, at later times.", "已复制为草稿：规则、场次和商品相同，时间已顺延。"},
		Fields: []kit.Field{
			{Name: "name", Label: kit.Text{"Name", "名称"}, Required: true, Max: maxName},
			{Name: "shift_days", Label: kit.Text{"Move dates by days", "日期顺延天数"}, Kind: kit.Whole, Required: true},
		},
	},
	{
		Path: activity + "/terminate", API: "POST " + api + "/activities/{id}/terminate", Role: auth.Operator, On: activity, When: in("scheduled", "running"), With: activityValues,
		Title: kit.Text{"End sale permanently", "终止活动"}, Done: kit.Text{"The sale has ended permanently.", "活动已终止。"}, Dangerous: true, Typed: true,
		Warning: kit.Text{"This cannot be undone: no new orders, and the sale cannot be restarted. Existing orders can still be paid. To stop selling for a while, pause the sale instead.", "终止后无法再次开始，已有订单仍可支付。如只需临时停止，请使用暂停。"},
	},
	{
		Path: "/admin/sessions/{id}/extend", API: "PATCH " + api + "/sessions/{id}", Role: auth.Operator,
		Title: kit.Text{"Extend session", "延长场次"}, Done: kit.Text{"The session is extended.", "场次结束时间已修改。"},
		Fields: []kit.Field{version, {Name: "closes_at", Label: kit.Text{"End time", "结束时间"}, Kind: kit.Moment, Required: true}},
	},
	{
		Path: item + "/pause", API: "POST " + api + "/items/{id}/pause", Role: auth.Operator, On: item, When: all(in("running", "scheduled"), itemPaused(false)),
		Title: kit.Text{"Pause this item", "暂停该商品"}, Done: kit.Text{"The item is paused. Other items keep selling.", "该商品已暂停，其他商品继续销售。"},
	},
	{
		Path: item + "/resume", API: "POST " + api + "/items/{id}/resume", Role: auth.Operator, On: item, When: all(in("running", "scheduled"), itemPaused(true)),
		Title: kit.Text{"Resume this item", "恢复该商品"}, Done: kit.Text{"The item is on sale again.", "该商品已恢复销售。"},
	},
	{
		Path: item + "/stock", API: "POST " + api + "/items/{id}/stock", Role: auth.Operator, On: item, When: in("scheduled", "running"),
		Title: kit.Text{"Adjust stock", "调整库存"}, Done: kit.Text{"The stock is adjusted.", "库存已调整。"},
		Fields: []kit.Field{{Name: "add", Label: kit.Text{"Add or remove units (use a minus sign to remove)", "调整数量（减少填负数）"}, Kind: kit.Whole, Required: true}},
	},
	{
		Path: item + "/backup", API: "POST " + api + "/items/{id}/backup", Role: auth.Operator, On: item, When: in("running", "ended", "terminated"),
		Title: kit.Text{"Move to reserve", "调整备用库存"}, Done: kit.Text{"The units are moved.", "备用库存已调整。"},
		Fields: []kit.Field{{Name: "units", Label: kit.Text{"Units to reserve (use a minus sign to put back on sale)", "转入备用的数量（转回填负数）"}, Kind: kit.Whole, Required: true}},
	},
	{
		Path: item + "/rate", API: "PUT " + api + "/items/{id}/admission", Role: auth.Operator, On: item, When: in("scheduled", "running"),
		Title: kit.Text{"Limit admission rate", "限流"}, Done: kit.Text{"The rate limit applies on every instance.", "限流已在所有实例上生效。"},
		Fields: []kit.Field{{Name: "per_second", Label: kit.Text{"Attempts per second on each instance (0 admits none, empty is unlimited)", "每个实例每秒放行次数；0 为不放行；留空为不限"}, Kind: kit.Whole, Blank: kit.Null}},
	},
	{
		Path: item + "/write-off", API: "POST " + api + "/items/{id}/write-off", Role: auth.Operator, On: item, When: in("scheduled", "running"),
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
func in(states ...string) condition {
	return func(data map[string]any) bool {
		status, _ := member(data, "activity", "status").(string)
		return slices.Contains(states, status)
	}
}

func paused(is bool) condition {
	return func(data map[string]any) bool { return member(data, "activity", "paused") == is }
}

func itemPaused(is bool) condition {
	return func(data map[string]any) bool { return member(data, "item", "paused") == is }
}

// activityValues are what the forms of an activity begin with.
func activityValues(data map[string]any) []any {
	return []any{"of", data["activity"], "typed", member(data, "activity", "name")}
}

// member reads a member of one of the page's documents.
func member(data map[string]any, name, of string) any {
	doc, _ := data[name].(map[string]any)
	return doc[of]
}
