package wechat

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"wechat-bad-code":    {"Get a new code from WeChat.", "请重新进行微信授权。"},
		"wechat-unavailable": {"Try again in a moment, or log in by phone.", "请稍后重试，或使用手机号登录。"},
	})
}
