// Package notifyoffice describes the back office's pages about webhooks, the shop's own
// systems that get events, and about the messages that shoppers get. See platform/edge/office for how such a
// description becomes pages.
package notifyoffice

import (
	"embed"

	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

//go:embed *.html
var files embed.FS

const (
	hooks = "/admin/webhooks"
	hook  = hooks + "/{id}"
	api   = "/api/v1/admin/webhooks"
)

// Section is the part of the office about webhooks and messages.
func Section() kit.Section {
	return kit.Section{
		Files: files, Words: words, Own: messageWords,
		Menu: []kit.Entry{
			{Path: messages, Name: kit.Text{"Messages to shoppers", "顾客消息"}, Role: auth.Viewer, Later: true},
			{Path: hooks, Name: kit.Text{"Webhooks", "Webhook"}, Role: auth.Viewer, Later: true},
		},
		Pages: append([]kit.Page{
			{Path: hooks, Title: kit.Text{"Webhooks", "Webhook"}, Role: auth.Viewer, Template: "webhooks.html", Reads: []kit.Read{{Name: "doc", Path: api}}},
			{
				Path: hook, Title: kit.Text{"Webhook", "Webhook 详情"}, Role: auth.Viewer, Template: "webhook.html",
				Filters: []kit.Field{{Name: "failed", Label: kit.Text{"Only failed", "仅看失败"}, Kind: kit.Tick}},
				Reads:   []kit.Read{{Name: "doc", Path: api + "/{id}"}, {Name: "attempts", Path: api + "/{id}/attempts", Query: true}},
			},
		}, messagePages...),
		Acts: append(acts, messageActs...),
	}
}

var typesHelp = kit.Text{"One a line, such as order.paid; the API's documentation lists them under webhooks.", "每行一个，如 order.paid；全部类型见接口文档的 webhooks。"}

var acts = []kit.Act{
	{
		Path: hooks + "/add", API: "POST " + api, Role: auth.Admin, On: hooks, Again: true, Shows: "secret",
		Title: kit.Text{"Add a webhook", "添加 Webhook"}, Done: kit.Text{"The webhook gets the events from now on.", "该 Webhook 从现在起接收事件。"},
		Fields: []kit.Field{
			{Name: "url", Label: kit.Text{"Address", "地址"}, Required: true, Max: 2000},
			{Name: "description", Label: kit.Text{"What receives there", "接收方说明"}, Max: 200},
			{Name: "types", Label: kit.Text{"Types of events (leave empty for all)", "事件类型；留空为全部"}, Kind: kit.Lines, Help: typesHelp},
		},
	},
	{
		Path: hook + "/change", API: "PATCH " + api + "/{id}", Role: auth.Admin, On: hook, Again: true,
		Title: kit.Text{"Change", "修改"}, Done: kit.Text{"The webhook is changed.", "已修改。"},
		Fields: []kit.Field{
			{Name: "url", Label: kit.Text{"Address", "地址"}, Required: true, Max: 2000},
			{Name: "description", Label: kit.Text{"What receives there", "接收方说明"}, Max: 200, Blank: ""},
			{Name: "types", Label: kit.Text{"Types of events (leave empty for all)", "事件类型；留空为全部"}, Kind: kit.Lines, Help: typesHelp, Blank: []string{}},
			{Name: "enabled", Label: kit.Text{"Enabled", "启用"}, Kind: kit.Tick, Blank: false},
		},
		With: kit.Values("of", "doc"),
	},
	{
		Path: hook + "/test", API: "POST " + api + "/{id}/test", Role: auth.Operator, On: hook,
		Title: kit.Text{"Send a test", "发送测试"}, Done: kit.Text{"The test was sent; the list says what came back.", "测试已发送，结果见列表。"},
	},
	{
		Path: hook + "/send", API: "POST " + api + "/{id}/send", Role: auth.Operator,
		Title: kit.Text{"Send again", "重新发送"}, Done: kit.Text{"The event was sent again; the list says what came back.", "事件已重新发送，结果见列表。"},
		Fields: []kit.Field{{Name: "event_id", Hidden: true}},
	},
	{
		Path: hook + "/secret", API: "POST " + api + "/{id}/secret", Role: auth.Admin, On: hook, Again: true, Shows: "secret",
		Title: kit.Text{"Make another secret", "更换签名密钥"}, Done: kit.Text{"The webhook has another secret.", "签名密钥已更换。"},
		Warning: kit.Text{"For 24 hours both sign; change the receiver in that time.", "24 小时内新旧密钥同时签名，请在此期间更新接收方。"},
	},
	{
		Path: hook + "/remove", API: "DELETE " + api + "/{id}", Role: auth.Admin, On: hook, Again: true, Dangerous: true, Then: hooks,
		Title: kit.Text{"Remove", "移除"}, Done: kit.Text{"The webhook is removed.", "已移除。"},
		Warning: kit.Text{"Its waiting events and its log are deleted.", "等待投递的事件和投递记录将一并删除。"},
	},
}

var words = map[string]kit.Text{
	"working": {"Working", "正常"}, "retrying": {"Retrying", "重试中"}, "failing": {"Failing", "持续失败"}, "disabled": {"Disabled", "已停用"},
}
