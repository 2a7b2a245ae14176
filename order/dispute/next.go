package dispute

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"order-not-disputable": {"Read the order: it can be disputed once it is paid.", "请查看订单：付款后方可申请售后。"},
		"dispute-open":         {"Reply in the open dispute.", "请在进行中的售后中回复。"},
		"dispute-limit":        {"Contact the shop by phone or in person.", "请通过电话等其他方式联系商家。"},
		"dispute-closed":       {"Read the dispute; the shopper may open another one.", "请查看售后结果；如有需要，顾客可重新申请。"},
	})
}
