package rush

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"already-bought": {"Follow the order in order_no.", "请查看您已有的订单。"},
		"sold-out":       {"Look for another session.", "请关注其他场次。"},
		"all-held":       {"Send the same path again: unpaid units come back.", "请用原链接重试，未付款的商品会释放。"},
		"not-enough":     {"Ask for fewer units.", "请减少购买数量。"},
		"over-limit":     {"Ask for fewer units.", "请减少购买数量。"},
		"not-started":    {"Send the same path at usable_from.", "请在开抢时间用原链接提交。"},
		"bad-path":       {"Request a new path.", "请重新获取抢购链接。"},
		"path-expired":   {"Request a new path.", "请重新获取抢购链接。"},
		"too-hot":        {"Send the same path again in a moment.", "请稍后用原链接重试。"},
		"cooling-down":   {"Wait for the seconds in Retry-After.", "请按提示等待后再试。"},
		"paused":         {"Send the same path again when the sale resumes.", "请在活动恢复后用原链接重试。"},
		"draining":       {"Send the same path again in a moment.", "请稍后用原链接重试。"},
	})
}
