package humancheck

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"human-check-required":    {"Fetch a challenge, solve it, and send the request with the solution.", "请先获取并完成人机验证，再携带结果重新提交。"},
		"human-check-failed":      {"Fetch a new challenge and solve it.", "请重新获取并完成人机验证。"},
		"human-check-unavailable": {"Try again in a moment.", "请稍后重试。"},
	})
}
