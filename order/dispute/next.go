package dispute

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"order-not-disputable": {"Read the order: it can be disputed once it is paid.", "请查看订单：付款后方可发起维权。"},
		"dispute-open":         {"Reply in the dispute that is open.", "请在进行中的维权里继续留言。"},
		"dispute-limit":        {"Contact the shop by phone or in person.", "请通过电话等其他方式联系商家。"},
		"dispute-closed":       {"Read the dispute; the shopper may open another one.", "请查看维权结果；如有需要，顾客可重新发起。"},
	})
}
