package ratelimit

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"rate-limited": {"Wait for the seconds in Retry-After, then repeat the request.", "请按 Retry-After 给出的秒数等待后重试。"},
	})
}
