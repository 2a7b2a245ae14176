package idempotency

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"idempotency-mismatch":  {"Send the first request unchanged, or another one under a new key.", "请原样重发首次请求，或为新请求更换幂等键。"},
		"idempotency-in-flight": {"Repeat the same request in a moment to get the first one’s answer.", "请稍后以相同内容重试，将得到首次请求的结果。"},
	})
}
