// Package peopleoffice describes the back office's pages about people: accounts with their
// roles and logins, and the blacklist. See platform/edge/office for how such a
// description becomes pages.
package peopleoffice

import (
	"embed"
	"strings"

	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

//go:embed *.html
var files embed.FS

const (
	users     = "/admin/users"
	user      = users + "/{id}"
	usersAPI  = "/api/v1/admin/users"
	blacklist = "/admin/blacklist"
	apiKeys   = "/admin/api-keys" //nolint:gosec // a path
)

var roles = []string{string(auth.Shopper), string(auth.Viewer), string(auth.Operator), string(auth.Admin)}

// Section is the part of the office about people.
func Section() kit.Section {
	return kit.Section{
		Files: files, Words: words,
		Menu: []kit.Entry{
			{Path: users, Name: kit.Text{"Accounts", "用户"}, Role: auth.Viewer},
			{Path: blacklist, Name: kit.Text{"Blacklist", "黑名单"}, Role: auth.Viewer, Later: true},
			{Path: apiKeys, Name: kit.Text{"API keys", "API 密钥"}, Role: auth.Admin, Later: true},
		},
		Pages: []kit.Page{
			{Path: users, Title: kit.Text{"Accounts", "用户"}, Role: auth.Viewer, Template: "users.html", Filters: userFilters, Reads: []kit.Read{{Name: "doc", Path: usersAPI, Query: true}}},
			{Path: user, Title: kit.Text{"User", "用户详情"}, Role: auth.Viewer, Template: "user.html", Reads: []kit.Read{
				{Name: "doc", Path: usersAPI + "/{id}"}, {Name: "points", Path: usersAPI + "/{id}/points"},
			}},
			{Path: blacklist, Title: kit.Text{"Blacklist", "黑名单"}, Role: auth.Viewer, Template: "blacklist.html", Reads: []kit.Read{{Name: "doc", Path: "/api/v1/admin/blacklist", Query: true}}},
			{Path: apiKeys, Title: kit.Text{"API keys", "API 密钥"}, Role: auth.Admin, Template: "keys.html", Reads: []kit.Read{{Name: "doc", Path: "/api/v1/admin/api-keys", Query: true}}},
		},
		Acts: acts,
	}
}

var userFilters = []kit.Field{
	{Name: "phone", Label: kit.Text{"Full phone number", "完整手机号"}, Max: 32},
	{Name: "id", Label: kit.Text{"User id", "用户编号"}, Kind: kit.Whole},
	{Name: "role", Label: kit.Text{"Role", "角色"}, Kind: kit.Choice, Options: roles},
	{Name: "status", Label: kit.Text{"Status", "状态"}, Kind: kit.Choice, Options: []string{"active", "disabled", "erased"}},
}

var acts = []kit.Act{
	{
		Path: user + "/role", API: "POST " + usersAPI + "/{id}/role", Role: auth.Admin, On: user, Again: true, When: is("active", "disabled"),
		Title: kit.Text{"Change role", "修改角色"}, Done: kit.Text{"Role changed.", "角色已修改，立即生效。"},
		Warning: kit.Text{"Viewers can see everything except full phone numbers, operators can also act, admins can also change roles.", "只读可查看（手机号打码），运营可操作，管理员还可分配角色。"},
		Fields:  []kit.Field{{Name: "role", Label: kit.Text{"Role", "角色"}, Kind: kit.Choice, Options: roles, Required: true}},
		With:    kit.Values("role", "doc.user.role"),
	},
	{
		Path: user + "/end-logins", API: "POST " + usersAPI + "/{id}/end-logins", Role: auth.Admin, On: user, When: is("active", "disabled"),
		Title: kit.Text{"Sign out everywhere", "强制下线"}, Done: kit.Text{"The user is signed out everywhere.", "该用户的登录已全部失效。"},
		Warning: kit.Text{"The user can sign in again immediately.", "用户可立即重新登录。"},
	},
	{
		Path: user + "/second-factor", API: "DELETE " + usersAPI + "/{id}/totp", Role: auth.Admin, On: user, Again: true, Dangerous: true, When: is("active"),
		Title: kit.Text{"Remove the authenticator app", "移除动态验证码"}, Done: kit.Text{"The second factor is removed and all logins have ended.", "动态验证码已移除，登录已全部失效。"},
		Warning: kit.Text{"Only for a user who has lost it, after verifying their identity.", "仅用于用户丢失验证器且已核实身份的情况。"},
	},
	{
		Path: user + "/disable", API: "POST " + usersAPI + "/{id}/disable", Role: auth.Admin, On: user, Dangerous: true, When: is("active"),
		Title: kit.Text{"Disable account", "停用账号"}, Done: kit.Text{"Account disabled and signed out everywhere.", "账号已停用，登录已失效。"},
		Fields: []kit.Field{{Name: "reason", Label: kit.Text{"Reason (for the audit log)", "原因（写入操作日志）"}, Kind: kit.Area, Required: true, Max: 200}},
	},
	{
		Path: user + "/enable", API: "POST " + usersAPI + "/{id}/enable", Role: auth.Admin, On: user, When: is("disabled"),
		Title: kit.Text{"Enable account", "恢复账号"}, Done: kit.Text{"The account is enabled.", "账号已恢复。"},
	},
	{
		Path: blacklist + "/add", API: "POST /api/v1/admin/blacklist", Role: auth.Operator, On: blacklist,
		Title: kit.Text{"Add an entry", "加入黑名单"}, Done: kit.Text{"Entry added on every instance.", "已在所有实例上生效。"},
		Fields: []kit.Field{
			{Name: "kind", Label: kit.Text{"What", "类型"}, Kind: kit.Choice, Options: []string{"user", "phone", "address", "device"}, Required: true},
			{Name: "value", Label: kit.Text{"User id, phone, IP address or network, or device id", "用户编号、手机号、IP 地址或网段、设备号"}, Required: true, Max: 128},
			{Name: "reason", Label: kit.Text{"Why", "原因"}, Required: true, Max: 500},
			{Name: "expires_at", Label: kit.Text{"Expires (leave empty for never)", "有效至（留空为永久）"}, Kind: kit.Moment},
		},
	},
	{
		Path: blacklist + "/{id}/remove", API: "DELETE /api/v1/admin/blacklist/{id}", Role: auth.Operator,
		Title: kit.Text{"Remove", "移除"}, Done: kit.Text{"The entry is removed.", "已移除。"},
	},
	{
		Path: apiKeys + "/make", API: "POST /api/v1/admin/api-keys", Role: auth.Admin, On: apiKeys, Again: true, Shows: "key",
		Title: kit.Text{"Make a key", "创建密钥"}, Done: kit.Text{"The key is in force.", "密钥已生效。"},
		Fields: []kit.Field{
			{Name: "name", Label: kit.Text{"Name of the system that has it", "使用方名称"}, Required: true, Max: 64},
			scopesField(),
			{Name: "namespace", Label: kit.Text{"Namespace of its users (empty: backend)", "用户命名空间（留空为 backend）"}, Help: kit.Text{"Keys of one namespace name the same users. Systems that count their users apart have one each.", "同一命名空间的密钥指向同一批用户；各自管理用户的系统请使用不同的命名空间。"}, Max: 32},
			{Name: "expires_at", Label: kit.Text{"Expires (leave empty for never)", "有效至（留空为永久）"}, Kind: kit.Moment},
		},
	},
	{
		Path: apiKeys + "/{id}/revoke", API: "POST /api/v1/admin/api-keys/{id}/revoke", Role: auth.Admin, Dangerous: true,
		Title: kit.Text{"Revoke", "撤销"}, Done: kit.Text{"The key is revoked on every instance.", "密钥已在所有实例失效。"},
		Warning: kit.Text{"The system that has it is refused at once. It cannot be undone.", "使用方将立即被拒绝，且无法恢复。"},
	},
}

// scopes are what a key may do, one a line.
func scopesField() kit.Field {
	var names []string
	for _, s := range auth.Scopes {
		names = append(names, string(s))
	}
	all := strings.Join(names, ", ")
	return kit.Field{
		Name: "scopes", Label: kit.Text{"What it may do, one a line", "权限，每行一个"}, Kind: kit.Lines, Required: true,
		Help: kit.Text{"Of " + all + ".", "可选 " + all + "。"},
	}
}

// is applies to accounts in one of the states.
func is(states ...any) func(map[string]any) bool { return kit.In("doc.user.status", states...) }

var words = map[string]kit.Text{
	"active": {"Active", "启用"}, "expired": {"Expired", "已过期"}, "revoked": {"Revoked", "已撤销"}, "disabled": {"Disabled", "已停用"}, "erased": {"Deleted", "已注销"},
	"user": {"User", "用户"}, "phone": {"Phone", "手机号"}, "address": {"Address or network", "IP 地址或网段"}, "device": {"Device", "设备"},
	"earned": {"Earned", "消费获得"}, "taken_back": {"Taken back after a refund", "退款扣回"}, "given_back": {"Given back, as the refund failed", "退款失败返还"},
}
