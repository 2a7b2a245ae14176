package stores

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"store-in-use":  {"Set open to false to stop offering the store.", "请停用该门店，顾客将不能再选择。"},
		"stale-version": {"Read it again and repeat your edit.", "请刷新查看最新内容后重新修改。"},
	})
}
