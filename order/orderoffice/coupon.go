package orderoffice

import (
	"slices"

	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

const couponsAPI = "/api/v1/admin/coupons"

// What a coupon is worth and where, fixed once it was active; and what may be changed
// until its end.
var (
	couponName  = kit.Field{Name: "name", Label: kit.Text{"Name (shown to shoppers)", "名称（顾客可见）"}, Required: true, Max: 120}
	couponTerms = []kit.Field{
		{Name: "amount_off", Label: kit.Text{"Amount off", "减免金额"}, Help: kit.Text{"Enter either an amount or a percentage.", "减免金额与减免百分比二选一。"}, Kind: kit.Price},
		{Name: "percent_off", Label: kit.Text{"Percent off", "减免百分比（八折填 20）"}, Kind: kit.Whole},
		{Name: "max_off", Label: kit.Text{"Maximum discount (percentage coupons)", "最高减免（仅百分比）"}, Kind: kit.Price},
		{Name: "threshold", Label: kit.Text{"Minimum order amount (0 for none)", "使用门槛（满多少元可用，0 为无门槛）"}, Kind: kit.Price, Required: true},
		{Name: "activity_ids", Label: kit.Text{"Only in these sales (ids, one per line)", "仅限这些活动（编号，每行一个）"}, Kind: kit.Lines},
		{Name: "item_ids", Label: kit.Text{"Only for these items (ids, one per line)", "仅限这些商品（编号，每行一个）"}, Kind: kit.Lines},
		{Name: "valid_days", Label: kit.Text{"Valid for (days after issue)", "领取后几天内有效"}, Kind: kit.Whole, Help: kit.Text{"Enter either days or a date range.", "有效天数与固定有效期二选一。"}},
		{Name: "valid_from", Label: kit.Text{"Valid from", "有效期开始"}, Kind: kit.Moment},
		{Name: "valid_until", Label: kit.Text{"Valid until", "有效期结束"}, Kind: kit.Moment},
		{Name: "issue_on", Label: kit.Text{"Issue automatically", "自动发放"}, Kind: kit.Choice, Options: []string{"registration", "reservation"}},
		{Name: "reserved_activity_ids", Label: kit.Text{"To shoppers who reserved in these sales (ids, one per line)", "发给预约这些活动的顾客（编号，每行一个）"}, Kind: kit.Lines},
		{Name: "reserved_item_ids", Label: kit.Text{"To shoppers who reserved these items (ids, one per line)", "发给预约这些商品的顾客（编号，每行一个）"}, Kind: kit.Lines},
	}
	couponCounts = []kit.Field{
		{Name: "total", Label: kit.Text{"Total quantity", "发放总量"}, Kind: kit.Whole, Required: true},
		{Name: "per_user", Label: kit.Text{"Limit per shopper", "每人限领"}, Kind: kit.Whole},
		{Name: "claim_from", Label: kit.Text{"Claimable from (empty if only the shop issues it)", "领取开始时间（留空则仅由店铺发放）"}, Kind: kit.Moment},
		{Name: "claim_until", Label: kit.Text{"Claimable until", "领取截止时间"}, Kind: kit.Moment},
	}
)

// couponForms make kinds of coupons and what becomes of them.
var couponForms = []kit.Act{
	{
		Path: coupons + "/add", API: "POST " + couponsAPI, Role: auth.Operator, On: coupons,
		With:  func(map[string]any) []any { return []any{"currency", "CNY", "threshold", "0", "per_user", "1"} },
		Title: kit.Text{"Create coupon", "新建优惠券"}, Done: kit.Text{"Draft saved. Activate it to start issuing.", "草稿已创建，启用后方可发放。"},
		Fields: slices.Concat([]kit.Field{couponName}, couponTerms, couponCounts),
	},
	{
		Path: coupons + "/{id}/edit", API: "PUT " + couponsAPI + "/{id}", Role: auth.Operator,
		Title: kit.Text{"Edit", "编辑"}, Button: kit.Text{"Save", "保存"}, Done: kit.Text{"Coupon saved.", "优惠券已修改。"},
		Fields: slices.Concat([]kit.Field{couponVersion, couponName}, couponTerms, couponCounts),
	},
	{
		Path: coupons + "/{id}/correct", API: "PUT " + couponsAPI + "/{id}", Role: auth.Operator,
		Title: kit.Text{"Edit name and quantity", "修改名称与数量"}, Button: kit.Text{"Save", "保存"}, Done: kit.Text{"Coupon saved.", "优惠券已修改。"},
		Warning: kit.Text{"The value and conditions of an active coupon cannot change.", "已启用的优惠券，面额和使用条件不可修改。"},
		Fields:  slices.Concat([]kit.Field{couponVersion, couponName}, couponCounts, hidden(couponTerms)),
	},
	{
		Path: coupons + "/{id}/delete", API: "DELETE " + couponsAPI + "/{id}", Role: auth.Operator,
		Title: kit.Text{"Delete", "删除"}, Done: kit.Text{"The draft is deleted.", "草稿已删除。"}, Dangerous: true,
		Warning: kit.Text{"Only a draft can be deleted.", "仅草稿可删除。"},
	},
	{
		Path: coupons + "/{id}/activate", API: "POST " + couponsAPI + "/{id}/activate", Role: auth.Operator,
		Title: kit.Text{"Activate", "启用"}, Done: kit.Text{"The coupon is active: it can be issued and claimed.", "已启用，可发放和领取。"},
	},
	{
		Path: coupons + "/{id}/issue", API: "POST " + couponsAPI + "/{id}/issue", Role: auth.Operator,
		Title: kit.Text{"Issue to shoppers", "发给用户"}, Done: kit.Text{"Coupons issued, except to users at their limit.", "已发放（已达上限的用户除外）。"},
		Fields: []kit.Field{{Name: "user_ids", Label: kit.Text{"User ids, one per line", "用户编号，每行一个"}, Kind: kit.Lines, Required: true}},
	},
	{
		Path: coupons + "/{id}/stop", API: "POST " + couponsAPI + "/{id}/stop", Role: auth.Operator,
		Title: kit.Text{"Stop", "停止发放"}, Done: kit.Text{"No more coupons are issued. Issued ones stay valid.", "已停止发放，已发放的仍可使用。"},
	},
	{
		Path: coupons + "/{id}/recall", API: "POST " + couponsAPI + "/{id}/recall", Role: auth.Operator, Dangerous: true, Typed: true,
		Title: kit.Text{"Void all", "全部作废"}, Done: kit.Text{"Coupons voided.", "已作废，不能再使用。"},
		Warning: kit.Text{"Unused coupons become invalid. Coupons already applied to an order are not affected.", "顾客未使用的优惠券将失效，已用于订单的不受影响。"},
		Fields: []kit.Field{{
			Name: "reason", Label: kit.Text{"Reason (for the audit log)", "原因（写入操作日志）"}, Kind: kit.Area, Required: true, Max: 500,
		}},
	},
}

var couponVersion = kit.Field{Name: "version", Kind: kit.Whole, Hidden: true}

// hidden are fields that are sent as they are, because the API takes a whole.
func hidden(fields []kit.Field) []kit.Field {
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].Hidden = true
	}
	return fields
}
