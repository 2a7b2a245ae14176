package stores

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"store-in-use":  {"Set open to false: the store is offered no more.", "请将门店设为停用，不再对外提供。"},
		"stale-version": {"Read it again and repeat the edit on what it is now.", "请刷新查看最新内容后重新修改。"},
	})
}
