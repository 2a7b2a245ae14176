package order

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"order-not-shippable":   {"Read the order: ship it once it is paid. A refunded or closed order is not shipped.", "请查看订单：付款后方可发货，已退款或已关闭的订单无需发货。"},
		"order-not-completable": {"Read the order: complete it once it is paid.", "请查看订单状态，付款后方可完成。"},
		"picked-up":             {"Check completed_at and completed_by, and do not hand the goods over twice.", "请核对取货时间与经办人，勿重复交付。"},
		"order-not-payable":     {"Read the order; if it was closed, rush again while the sale lasts.", "请查看订单状态；若已关闭，可在活动期间重新抢购。"},
		"order-not-cancelable":  {"Read the order: refund it if it is paid. A closed order needs nothing.", "请查看订单：已付款的请走退款，已关闭的无需处理。"},
		"order-queued":          {"Ask for the order again in a moment.", "请稍后再次查询订单。"},
		"order-closing":         {"Ask for the order again in a moment.", "请稍后再次查询订单。"},
		"not-entered":           {"Send the same rush path again if it had no final answer.", "若抢购未得到明确结果，请用原链接重试。"},
		"unknown":               {"Look up the order by its number in a moment.", "请稍后按订单号查询结果。"},
		"details-missing":       {"Fill in the order’s details, then pay.", "请先填写订单所需信息，再付款。"},
		"details-fixed":         {"Ask the shop to change them, or cancel the order and buy again.", "请联系商家修改，或取消订单后重新购买。"},
	})
}
