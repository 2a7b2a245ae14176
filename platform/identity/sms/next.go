package sms

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"sms-unavailable": {"Log in with the password. If the shop sends SMS, try again in a minute.", "请使用密码登录；商家已开通短信的，可一分钟后重试。"},
		"sms-refused":     {"Check the number, or use another one.", "请核对手机号，或更换号码。"},
	})
}
