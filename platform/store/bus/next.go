package bus

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"bus-full":      {"Repeat the request in a moment.", "请稍后重试。"},
		"bus-unhealthy": {"Try again in a moment. If it persists, operators check the open alarms.", "请稍后重试；若持续出现，运营人员请查看未处理的告警。"},
		"bus-refused":   {"Send the request id to the operator.", "请将请求编号告知运营人员。"},
	})
}
