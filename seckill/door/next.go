package door

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"no-human-check": {"Send the request without a solution.", "无需验证，请直接提交。"},
	})
}
