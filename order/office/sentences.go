package office

// sentences are the Chinese of what the API says about a coupon that it refuses.
var sentences = map[string]string{
	"A note has a letter or a digit, and neither control characters nor characters that change the direction of writing.": "备注须包含可见文字，且不能含有控制字符。",
	"The carrier and the tracking number have one line each, with a letter or a digit.":                                   "请各用一行填写快递公司和单号。",
	"An amount is 1 to %d minor units.":             "金额须大于 0，最多 %s 分。",
	"A coupon has one currency, that of threshold.": "一张优惠券只能使用一种货币。",
	"No account has the number %d; a guest has none. Search the users by phone, or send without_account to issue to guests.": "没有编号为 %s 的账号，访客没有账号。请在“用户”页按手机号查找编号；如需发给访客，请通过接口发放并设置 without_account。",
	"An id is a positive decimal number.":                                      "编号为正整数。",
	"A name is one line and not blank.":                                        "名称为一行文字，不能为空。",
	"A currency is three letters of ISO 4217.":                                 "货币为三个大写字母，例如 CNY。",
	"A threshold is 0 to %d minor units.":                                      "门槛为 0 至 %s 分。",
	"A coupon takes off either an amount or a percentage.":                     "减免金额与减免百分比须填写其中一项。",
	"Only a percentage can have a maximum.":                                    "只有百分比减免才能设置上限。",
	"A validity period needs a start and an end.":                              "开始和结束时间须同时填写。",
	"The validity period must end after it starts, in the years 2000 to 2199.": "结束时间须晚于开始时间，请检查年份。",
	"A coupon is valid for a period or for a number of days, not both.":        "有效天数与固定有效期须填写其中一项。",
	"Name the items or activities to reserve in reserved_item_ids or reserved_activity_ids if issue_on is reservation, and only then.": "选择“预约后”发放时，请填写活动或商品编号；其他情况请留空。",
	"total must not be less than the number of coupons that were issued, and per_user not less than it was.":                           "总量不能少于已发放数量，每人限领不能调低。",
}
