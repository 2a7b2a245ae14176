package refund

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"refund-not-waiting":       {"Read the refund again and act on its refund_status.", "请刷新退款详情，按最新状态处理。"},
		"refund-second-operator":   {"Ask another operator to approve it.", "请由另一位运营人员审批。"},
		"order-not-refundable":     {"Read the order: cancel it if it is unpaid. If it is refunding, follow that refund.", "请查看订单：未付款的可取消，退款中的请跟进退款进度。"},
		"refund-exceeds":           {"Refund no more than the amount in left.", "请将金额改为不超过可退余额。"},
		"refund-of-nothing":        {"Send an amount above zero; leave it out to refund all that is left.", "请填写大于 0 的金额；退全部余款请留空。"},
		"idempotency-key-required": {"Send an Idempotency-Key header, new for each refund.", "请携带 Idempotency-Key 请求头，每笔退款使用新的值。"},
		"payment-charged-back":     {"Ask for at most what left says. For the rest, answer the chargeback at the provider; refund once its money is back. If it is lost, end a failed refund by it.", "退款金额请不超过可退余额；其余部分请先在支付渠道处理拒付，款项退回后再退款；若已败诉，可将失败的退款标记为由拒付抵偿。"},
		"chargeback-not-lost":      {"Read the order’s chargebacks and answer an open one. If there is none, retry the refund or pay the money back another way.", "请查看订单的拒付记录：进行中的请先应诉；没有拒付的请重试退款或线下退款。"},
		"refund-not-allowed":       {"Ask the shop for the refund.", "请联系商家办理退款。"},
	})
}
