package auth

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"no-token":  {"Log in, and send the access token as \"Authorization: Bearer …\".", "请登录，并在 Authorization 请求头中携带访问令牌。"},
		"bad-token": {"Refresh the access token, or log in again.", "请刷新访问令牌，或重新登录。"},
	})
}
