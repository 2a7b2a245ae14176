package risk

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"one-activity":  {"Finish or leave the other activity first.", "请先完成或退出正在参与的其他活动。"},
		"not-available": {"Choose another item, or contact the shop.", "请选择其他商品，或联系商家。"},
	})
}
