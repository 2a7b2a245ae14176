package blacklist

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"list-full": {"Remove an entry that is no longer needed, then add this one.", "请先移除不再需要的条目，再添加新的。"},
	})
}
