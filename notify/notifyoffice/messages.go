package notifyoffice

import (
	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

const (
	messages    = "/admin/shopper-messages"
	rules       = messages + "/rules"
	text        = messages + "/texts/{kind}/{channel}/{language}"
	messagesAPI = "/api/v1/admin/shopper-messages"
	rulesAPI    = "/api/v1/admin/shopper-message-rules"
	textsAPI    = "/api/v1/admin/shopper-message-texts"
)

var (
	messageKinds  = []string{"reminder", "won", "deadline", "paid", "shipped", "refunded", "units_back", "dispute"}
	messageStates = []string{"waiting", "sent", "dead", "dropped"}

	messagePages = []kit.Page{
		{
			Path: messages, Title: kit.Text{"Messages to shoppers", "顾客消息"}, Role: auth.Viewer, Template: "messages.html",
			Filters: []kit.Field{
				{Name: "state", Label: kit.Text{"State", "状态"}, Kind: kit.Choice, Options: messageStates},
				{Name: "kind", Label: kit.Text{"Kind", "类型"}, Kind: kit.Choice, Options: messageKinds},
				{Name: "order_no", Label: kit.Text{"Order number", "订单号"}, Max: 32},
			},
			Reads: []kit.Read{{Name: "messages", Path: messagesAPI, Query: true}, {Name: "days", Path: messagesAPI + "/days"}},
		},
		{
			Path: rules, Title: kit.Text{"Rules and texts of messages", "消息设置"}, Role: auth.Viewer, Template: "message_rules.html",
			Reads: []kit.Read{{Name: "rules", Path: rulesAPI}, {Name: "texts", Path: textsAPI}},
		},
		{
			Path: text, Title: kit.Text{"Text of a message", "消息文案"}, Role: auth.Viewer, Template: "message_text.html",
			Reads: []kit.Read{{Name: "text", Path: textsAPI + "/{kind}/{channel}/{language}"}},
		},
	}
)

var messageActs = []kit.Act{
	{
		Path: messages + "/{id}/redrive", API: "POST " + messagesAPI + "/{id}/redrive", Role: auth.Operator,
		Title: kit.Text{"Send again", "重新发送"}, Done: kit.Text{"The message is sent again.", "消息将重新发送。"}, Then: messages,
	},
	{
		Path: messages + "/redrive", API: "POST " + messagesAPI + "/redrive", Role: auth.Operator, On: messages,
		Title: kit.Text{"Send the dead ones again", "重新发送失败消息"}, Done: kit.Text{"Those that are still true are sent again.", "仍有时效的消息将重新发送。"},
		Fields: []kit.Field{{
			Name: "kind", Label: kit.Text{"Kind", "类型"}, Kind: kit.Choice, Required: true, Options: []string{"won", "deadline", "paid", "shipped", "refunded", "dispute"},
		}},
	},
	{
		Path: rules + "/change", API: "PUT " + rulesAPI, Role: auth.Admin, On: rules,
		Title: kit.Text{"Language, budget and quiet hours", "语言、预算与免打扰"}, Done: kit.Text{"The rules are changed.", "设置已修改。"},
		Fields: []kit.Field{
			{Name: "language", Label: kit.Text{"Language, unless the shopper has chosen one", "默认语言（用户未选择时）"}, Kind: kit.Choice, Required: true, Options: []string{"auto", "zh", "en"}},
			{Name: "budget", Label: kit.Text{"Budget in SMS (0: none)", "短信条数预算（0 为不限）"}, Kind: kit.Whole, Required: true, Help: kit.Text{"When it is used up, reminders and units back are not sent; messages about orders are.", "用完后不再发送开抢提醒和到货通知，订单消息不受影响。"}},
			{Name: "budget_per", Label: kit.Text{"Budget for a", "预算周期"}, Kind: kit.Choice, Required: true, Options: []string{"day", "month"}},
			{Name: "quiet_from", Label: kit.Text{"Quiet hours from (such as 22:00)", "免打扰开始（如 22:00）"}, Required: true, Max: 5},
			{Name: "quiet_until", Label: kit.Text{"until (the same time: none)", "免打扰结束（与开始相同则不启用）"}, Required: true, Max: 5},
		},
		With: kit.Values("of", "rules"),
	},
	{
		Path: rules + "/{kind}/change", API: "PUT " + rulesAPI + "/{kind}", Role: auth.Admin, Then: rules,
		Title: kit.Text{"Change", "修改"}, Done: kit.Text{"The kind is changed.", "该类消息已修改。"},
		Fields: []kit.Field{
			{Name: "on", Label: kit.Text{"Send these messages", "发送此类消息"}, Kind: kit.Tick, Blank: false},
			{Name: "ahead_minutes", Label: kit.Text{"Minutes before (reminder, deadline)", "提前分钟数（开抢提醒、付款提醒）"}, Kind: kit.Whole},
		},
	},
	{
		Path: text + "/write", API: "PUT " + textsAPI + "/{kind}/{channel}/{language}", Role: auth.Admin, On: text,
		Title: kit.Text{"Write the text", "修改文案"}, Done: kit.Text{"The text is saved; the preview shows it.", "文案已保存，预览如下。"},
		Fields: []kit.Field{
			{Name: "body", Label: kit.Text{"Text (empty: the built-in one)", "正文（留空恢复内置文案）"}, Kind: kit.Area, Max: 1000, Blank: "", Help: kit.Text{
				"For e-mail the first line is the subject. For WeChat: a line for each field of the template, such as thing1 = {item}, and page = the page that a tap opens. Empty: no WeChat message of this kind.",
				"邮件：第一行为主题。微信消息：模板的每个字段写一行，如 thing1 = {item}；page = 点击后打开的页面。留空则该类消息不发微信。",
			}},
			{Name: "template", Label: kit.Text{"The provider’s name of the approved text, or WeChat’s template id", "服务商模板编号或微信模板 ID"}, Max: 100},
		},
		With: kit.Values("of", "text"),
	},
	{
		Path: text + "/test", API: "POST " + textsAPI + "/{kind}/{channel}/{language}/test", Role: auth.Operator, On: text,
		Title: kit.Text{"Send a test to my own account", "发送测试给自己"}, Done: kit.Text{"The test was sent to your own account.", "测试消息已发送到您自己的账号。"},
	},
}

// messageWords are what the API's values are called.
var messageWords = map[string]kit.Text{
	"reminder": {"Reminder before the opening", "开抢提醒"}, "won": {"Units won", "抢购成功"}, "deadline": {"Deadline near", "付款提醒"}, "paid": {"Paid", "付款成功"},
	"shipped": {"Shipped", "已发货"}, "refunded": {"Refunded", "已退款"}, "units_back": {"Units back", "到货通知"}, "dispute": {"Dispute answered", "售后回复"},
	"waiting": {"Waiting", "等待发送"}, "sent": {"Sent", "已发送"}, "dead": {"Not sent", "发送失败"}, "dropped": {"Dropped", "不再发送"},
	"auto": {"By the phone’s country", "按手机号所属国家"}, "zh": {"Chinese", "中文"}, "en": {"English", "英文"}, "day": {"Day", "每天"}, "month": {"Month", "每月"},
	"wechat": {"WeChat official account", "微信公众号"}, "wechat-mini": {"WeChat mini program", "微信小程序"}, "sms": {"SMS", "短信"}, "email": {"E-mail", "邮件"},
}
