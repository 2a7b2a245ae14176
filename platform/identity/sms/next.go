package sms

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"sms-unavailable": {"Try again in a minute, or log in with the password.", "请一分钟后重试，或使用密码登录。"},
		"sms-refused":     {"Check the number, or use another one.", "请核对手机号，或更换号码。"},
	})
}
