package account

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"totp-required":       {"Enter the six digits of the authenticator app (totp), or a recovery code.", "请输入验证器应用中的六位动态验证码，或一个恢复码。"},
		"wrong-totp":          {"Wait for the next code of the authenticator app and send it, or use a recovery code.", "请等待验证器显示下一个验证码后再试，或使用恢复码。"},
		"totp-set":            {"Remove the second factor with one of its codes first.", "请先使用动态验证码关闭现有的两步验证。"},
		"wechat-taken":        {"Log in with this WeChat account instead.", "请直接使用该微信登录。"},
		"wechat-linked":       {"Log in with the WeChat account that is linked, or use another account of the shop.", "请使用已绑定的微信登录，或换用其他账号。"},
		"wechat-state":        {"Start the WeChat login again.", "请重新发起微信登录。"},
		"phone-taken":         {"Log in, or reset the password.", "请直接登录，或重置密码。"},
		"phone-unknown":       {"Register, or log in by SMS code.", "请先注册，或使用短信验证码登录。"},
		"phone-linked":        {"Use the phone that is linked, or another account.", "请使用已绑定的手机号，或换用其他账号。"},
		"bad-refresh-token":   {"Log in again.", "请重新登录。"},
		"refresh-reused":      {"Log in again, and change the password if it was not you.", "请重新登录；若非本人操作，请修改密码。"},
		"no-login":            {"Log in to get a token of a login; one that was minted with the key ends by itself.", "请通过登录获取令牌；由密钥签发的令牌到期后自动失效。"},
		"no-account":          {"Ask the operator for an account, or register.", "请注册账号，或联系运营人员。"},
		"proof-required":      {"Send the current password, or an SMS code.", "请提供当前密码或短信验证码。"},
		"account-disabled":    {"Ask the shop’s staff to enable the account.", "请联系商家工作人员恢复账号。"},
		"last-admin":          {"Make another user an admin first.", "请先将另一位用户设为管理员。"},
		"too-busy":            {"Try again in a moment.", "请稍后重试。"},
		"weak-password":       {"Choose a longer password that is not in common lists.", "请设置更长且不常见的密码。"},
		"wrong-code":          {"Check the digits, or request a new code.", "请核对验证码，或重新获取。"},
		"wrong-login":         {"Check phone and password. If the shop sends SMS, log in by code or reset the password.", "请核对手机号和密码；商家已开通短信的，可使用验证码登录或重置密码。"},
		"wrong-password":      {"Check the password, or reset it by SMS code.", "请核对密码，或通过短信验证码重置。"},
		"no-password":         {"Set a password with an SMS code (auth/password/reset).", "请先通过短信验证码设置密码。"},
		"sms-ceiling":         {"Try again later, or log in with the password.", "请稍后再试，或使用密码登录。"},
		"sms-country-refused": {"Use a phone number from a country that the shop serves.", "请使用商家支持的国家或地区的手机号。"},
		"first-admin-link":    {"Start the server again for another link, or ask an admin for a role.", "请重新启动服务以获取新链接，或联系管理员授予角色。"},
		"login-refused":       {"Contact the shop.", "请联系商家客服。"},
	})
}
