// Package watchoffice describes the back office's pages about the server's own state:
// alarms, proofs of the books, messages that NATS refused, and letters that a consumer
// gave up on. See platform/edge/office for how such a description becomes pages.
package watchoffice

import (
	"embed"
	"slices"

	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

//go:embed *.html
var files embed.FS

const api = "/api/v1/admin"

// Section is the part of the office about the server's own state.
func Section() kit.Section {
	page := func(path string, title kit.Text, template string, filters []kit.Field, read string) kit.Page {
		return kit.Page{Path: path, Title: title, Role: auth.Viewer, Template: template, Filters: filters, Reads: []kit.Read{{Name: "doc", Path: read, Query: true}}}
	}
	return kit.Section{
		Files: files, Words: words,
		Menu: []kit.Entry{
			{Path: "/admin/alarms", Name: kit.Text{"Alarms", "告警"}, Role: auth.Viewer},
			{Path: "/admin/proofs", Name: kit.Text{"Proofs of the books", "账目核对"}, Role: auth.Viewer},
			{Path: "/admin/audit", Name: kit.Text{"Audit log", "操作日志"}, Role: auth.Viewer, Later: true},
			{Path: "/admin/messages", Name: kit.Text{"Messages", "消息"}, Role: auth.Viewer, Later: true},
			{Path: "/admin/dead-letters", Name: kit.Text{"Dead letters", "死信"}, Role: auth.Viewer, Later: true},
			{Path: "/admin/settings", Name: kit.Text{"Settings", "运行设置"}, Role: auth.Admin, Later: true},
		},
		Pages: []kit.Page{
			page("/admin/alarms", kit.Text{"Alarms", "告警"}, "alarms.html", alarmFilters, api+"/alarms"),
			page("/admin/audit", kit.Text{"Audit log", "操作日志"}, "audit.html", auditFilters, api+"/audit"),
			page("/admin/proofs", kit.Text{"Proofs of the books", "账目核对"}, "proofs.html", nil, api+"/proof"),
			page("/admin/proofs/{id}", kit.Text{"Proof of the books", "账目核对"}, "proof.html", nil, api+"/proof/{id}"),
			page("/admin/messages", kit.Text{"Messages", "消息"}, "messages.html", messageFilters, api+"/messages"),
			page("/admin/messages/{id}", kit.Text{"Message", "消息"}, "message.html", nil, api+"/messages/{id}"),
			page("/admin/dead-letters", kit.Text{"Dead letters", "死信"}, "letters.html", letterFilters, api+"/dead-letters"),
			page("/admin/dead-letters/{id}", kit.Text{"Dead letter", "死信"}, "letter.html", nil, api+"/dead-letters/{id}"),
			{Path: "/admin/settings", Title: kit.Text{"Settings in force", "当前运行设置"}, Role: auth.Admin, Template: "settings.html", Load: settings},
		},
		Acts: acts,
	}
}

// settings reads what the shop has set, before what is as by default.
func settings(c *kit.Call) (map[string]any, error) {
	doc, err := c.Get(api+"/settings", nil)
	if err != nil {
		return nil, err
	}
	list, _ := doc["data"].([]any)
	byDefault := func(of any) int {
		if setting, _ := of.(map[string]any); setting["from"] == "default" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b any) int { return byDefault(a) - byDefault(b) })
	return map[string]any{"settings": list}, nil
}

var (
	alarmFilters = []kit.Field{
		{Name: "open", Label: kit.Text{"Open only", "仅看未处理"}, Kind: kit.Tick},
		{Name: "severity", Label: kit.Text{"Severity", "级别"}, Kind: kit.Choice, Options: []string{"critical", "warning", "info"}},
		{Name: "code", Label: kit.Text{"Code", "代码"}, Max: 64},
	}
	auditFilters = []kit.Field{
		{Name: "subject", Label: kit.Text{"Subject, for example item 12", "对象，例如 item 12"}, Max: 100},
		{Name: "action", Label: kit.Text{"Action", "操作"}, Max: 100},
		{Name: "actor", Label: kit.Text{"Operator's user id", "操作人编号"}, Kind: kit.Whole},
	}
	messageFilters = []kit.Field{
		{Name: "status", Label: kit.Text{"Status", "状态"}, Kind: kit.Choice, Required: true, Options: []string{"failed", "pending", "sent"}},
		{Name: "subject", Label: kit.Text{"Subject", "主题"}, Max: 256},
		{Name: "from", Label: kit.Text{"From", "时间起"}, Kind: kit.Moment},
		{Name: "until", Label: kit.Text{"until", "止"}, Kind: kit.Moment},
	}
	letterFilters = []kit.Field{{Name: "consumer", Label: kit.Text{"Consumer", "消费者"}, Max: 128}}
)

var again = kit.Text{"Retry", "重新投递"}

var acts = []kit.Act{
	{
		Path: "/admin/alarms/{id}/acknowledge", API: "POST " + api + "/alarms/{id}/acknowledge", Role: auth.Operator,
		Title: kit.Text{"Acknowledge", "认领处理"}, Done: kit.Text{"Acknowledged by you.", "已标记由您处理。"}, // one press, on a phone
	},
	{
		Path: "/admin/alarms/test", API: "POST " + api + "/alarms/test", Role: auth.Operator, On: "/admin/alarms",
		Title: kit.Text{"Send a test", "发送测试"}, Answer: "tested.html",
	},
	{
		Path: "/admin/proofs/start", API: "POST " + api + "/proof", Role: auth.Operator, On: "/admin/proofs",
		Title: kit.Text{"Prove now", "立即核对账目"}, Done: kit.Text{"The proof is running; see the top of the list.", "核对正在进行，见列表首位。"},
	},
	{
		Path: "/admin/messages/{id}/again", API: "POST " + api + "/messages/{id}/redrive", Role: auth.Operator,
		Title: again, Done: kit.Text{"The event was queued again.", "已重新投递。"},
	},
	{
		Path: "/admin/messages/all-again", API: "POST " + api + "/messages/redrive", Role: auth.Operator, On: "/admin/messages",
		Title: kit.Text{"Retry all failed", "重新投递全部失败消息"}, Done: kit.Text{"Failed events were queued again, oldest first.", "已按时间先后重新投递失败消息。"},
		Fields: []kit.Field{{Name: "subject", Label: kit.Text{"Subject", "仅此主题"}, Max: 256}},
	},
	{
		Path: "/admin/dead-letters/{id}/again", API: "POST " + api + "/dead-letters/{id}/redrive", Role: auth.Operator,
		Title: again, Done: kit.Text{"Sent to its consumer again.", "已重新投递给消费者。"},
	},
	{
		Path: "/admin/dead-letters/all-again", API: "POST " + api + "/dead-letters/redrive", Role: auth.Operator, On: "/admin/dead-letters",
		Title: kit.Text{"Retry all of a consumer", "重新投递某消费者的全部死信"}, Done: kit.Text{"Sent to their consumer again, oldest first.", "已按时间先后重新投递。"},
		Fields: []kit.Field{{Name: "consumer", Label: kit.Text{"Consumer", "消费者"}, Required: true, Max: 128}},
	},
}

var words = map[string]kit.Text{
	"critical": {"Critical", "严重"}, "warning": {"Warning", "注意"}, "info": {"Info", "通知"}, "proved": {"Proved", "已证明"}, "violated": {"Violated", "不一致"}, "failed": {"Failed", "失败"},
	"pending": {"On its way", "投递中"}, "sent": {"Sent", "已投递"}, "running": {"Running", "进行中"},
	"flag": {"Flag", "启动参数"}, "environment": {"Environment", "环境变量"}, "default": {"Default", "默认"},
}
