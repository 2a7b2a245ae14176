package inventory

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"load-busy": {"Wait until the item is loaded, then try again.", "请等待商品预热完成后再试。"},
		"fenced":    {"Try again in a moment; the item is loaded within seconds.", "请稍后重试，商品将在数秒内就绪。"},
	})
}
