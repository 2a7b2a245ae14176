// Package saleoffice describes the back office's pages about sales: activities with their
// sessions and items, what is going on with each item, the check before an opening, and
// the forms that stop, slow, extend and end a sale. See platform/edge/office for how
// such a description becomes pages.
package saleoffice

import (
	"embed"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
	"stampede/seckill/report"
)

//go:embed *.html
var files embed.FS

const (
	api        = "/api/v1/admin"
	activities = "/admin/activities"
	activity   = activities + "/{id}"
	item       = "/admin/items/{id}"
)

// Section is the module's part of the office.
func Section() kit.Section {
	known := maps.Clone(words)
	maps.Copy(known, riskWords)
	return kit.Section{
		Files: files, Words: known,
		Menu: []kit.Entry{
			{Path: activities, Name: kit.Text{"Sales", "活动"}, Role: auth.Viewer},
			{Path: risk, Name: kit.Text{"Risk rules", "风控规则"}, Role: auth.Viewer, Later: true},
		},
		Pages: append([]kit.Page{
			{Path: activities, Title: kit.Text{"Sales", "活动"}, Role: auth.Viewer, Template: "activities.html", Filters: activityFilters, Reads: []kit.Read{{Name: "activities", Path: api + "/activities", Query: true}, {Name: "backups", Path: api + "/backups"}}},
			{Path: activities + "/new", Title: kit.Text{"Create sale", "新建活动"}, Role: auth.Operator, Template: "new.html"},
			{Path: activity, Title: kit.Text{"Sale", "活动详情"}, Role: auth.Viewer, Template: "activity.html", Load: sale},
			{Path: activity + "/live", Title: kit.Text{"War room", "作战室"}, Role: auth.Viewer, Template: "live.html", Reads: []kit.Read{{Name: "room", Path: api + "/activities/{id}/war-room"}}},
			{Path: activity + "/live/events", Role: auth.Viewer, Download: api + "/activities/{id}/war-room/live"},
			{Path: activity + "/preflight", Title: kit.Text{"Pre-sale checks", "开售检查"}, Role: auth.Viewer, Template: "preflight.html", Reads: []kit.Read{
				{Name: "preflight", Path: api + "/activities/{id}/preflight"}, {Name: "activity", Path: api + "/activities/{id}"},
			}},
			{Path: item + "/preview", Role: auth.Viewer, Download: api + "/items/{id}/preview"},
			{Path: documentPath, Role: auth.Viewer, Download: api + "/activities/by-external-id/{external_id}"},
			{Path: templatePath, Role: auth.Operator, Attached: template},
			{Path: item, Title: kit.Text{"Item", "商品详情"}, Role: auth.Viewer, Template: "item.html", Load: oneItem},
			{Path: "/admin/sessions/{id}/report", Role: auth.Viewer, Download: api + "/sessions/{id}/report"},
		}, riskPages...),
		Acts: operators(editActs, acts, planActs, importActs, riskActs),
	}
}

// operators gives the forms to operators, who alone may change a sale.
func operators(forms ...[]kit.Act) []kit.Act {
	all := slices.Concat(forms...)
	for i := range all {
		all[i].Role = auth.Operator
	}
	return all
}

var activityFilters = []kit.Field{{
	Name: "status", Label: kit.Text{"Status", "状态"}, Kind: kit.Choice, Options: []string{"draft", "scheduled", "running", "ended", "terminated"},
}}

// sale reads an activity, with the books of each item.
func sale(c *kit.Call) (map[string]any, error) {
	found, err := c.Get(api+"/activities/"+url.PathEscape(c.Value("id")), nil)
	if err != nil {
		return nil, err
	}
	sessions, _ := found["sessions"].([]any)
	for _, s := range sessions {
		session, _ := s.(map[string]any)
		items, _ := session["items"].([]any)
		for _, i := range items {
			if it, _ := i.(map[string]any); it != nil {
				id, _ := it["id"].(string)
				if it["funnel"], err = figures(c, id); err != nil {
					return nil, err
				}
			}
		}
	}
	settled, err := c.Get(api+"/activities/"+url.PathEscape(c.Value("id"))+"/settlements", nil)
	if err != nil {
		return nil, err
	}
	rules, err := c.Get(api+"/activities/"+url.PathEscape(c.Value("id"))+"/rules", nil)
	return map[string]any{"activity": found, "rules": rules, "settled": settled["settlements"]}, err
}

// oneItem reads an item with all that is known of its sale.
func oneItem(c *kit.Call) (map[string]any, error) {
	id := url.PathEscape(c.Value("id"))
	found, err := c.Get(api+"/items/"+id, nil)
	if err != nil {
		return nil, err
	}
	of, _ := found["activity_id"].(string)
	data := map[string]any{"item": found}
	if data["detail"], err = c.Get(api+"/items/"+id+"/detail", nil); err != nil {
		return nil, err
	}
	if data["activity"], err = c.Get(api+"/activities/"+of, nil); err != nil {
		return nil, err
	}
	rate, err := c.Get(api+"/items/"+id+"/admission", nil)
	if away(err) != nil {
		return nil, err
	}
	data["rate"] = rate
	funnel, err := figures(c, id)
	meanings := map[string]string{}
	answers, _ := funnel["answers"].(map[string]any)
	for code := range answers {
		meanings[code] = report.Meaning(code, c.Lang)
	}
	data["funnel"], data["meanings"] = funnel, meanings
	return data, err
}

// figures reads an item's funnel. Its books are partly in Redis: with that away the
// page shows the rest, because its forms are what an operator needs then.
func figures(c *kit.Call, id string) (map[string]any, error) {
	found, err := c.Get(api+"/items/"+id+"/funnel", nil)
	return found, away(err)
}

// away drops the error of a store that cannot be reached.
func away(err error) error {
	if p, refused := errors.AsType[*kit.Problem](err); refused && p.Status == http.StatusServiceUnavailable {
		return nil
	}
	return err
}

// words are the states of sales as operators read them.
var words = map[string]kit.Text{
	"activity ": {"activity ", "活动 "}, "session ": {"session ", "场次 "}, "item ": {"item ", "商品 "}, // before a number, see Call.Subject
	"draft": {"Draft", "草稿"}, "scheduled": {"Published", "已发布"}, "running": {"Running", "进行中"},
	"ended": {"Ended", "已结束"}, "terminated": {"Ended by the shop", "已终止"},
	"pow": {"Invisible check", "无感验证"}, "slide": {"Slider", "滑块验证"}, "verifier": {"Third-party service", "第三方验证"},
	"optional": {"Optional", "选填"}, "required": {"Required", "必填"}, "return": {"Restock", "退回库存"}, "write_off": {"Write off", "报损"},
	"ok": {"OK", "正常"}, "warning": {"Warning", "注意"}, "stop": {"Blocker", "不可开售"},
}

const risk = "/admin/risk"

var riskPages = []kit.Page{{Path: risk, Title: kit.Text{"Risk rules", "风控规则"}, Role: auth.Viewer, Template: "risk.html", Load: riskPage}}

// riskPage reads the rules and the latest decisions.
func riskPage(c *kit.Call) (map[string]any, error) {
	rules, err := c.Get(api+"/risk/rules", nil)
	if err != nil {
		return nil, err
	}
	decisions, err := c.Get(api+"/risk/decisions", c.Filled(nil))
	return map[string]any{"rules": rules, "decisions": decisions}, err
}

var riskActs = []kit.Act{
	{
		Path: risk + "/add", API: "POST " + api + "/risk/rules", On: risk,
		Title: kit.Text{"Add a rule", "添加规则"}, Done: kit.Text{"Rule added.", "规则已添加。"},
		Warning: kit.Text{"Start with a dry run: the rule restricts no one, and the log below lists who it would have affected.", "建议先试运行：期间不限制任何人，下方会列出本应受限的用户。"},
		Fields: []kit.Field{
			{Name: "kind", Label: kit.Text{"Counts", "统计项"}, Kind: kit.Choice, Options: []string{"unpaid_holds", "open_unpaid"}, Required: true},
			{Name: "threshold", Label: kit.Text{"Threshold", "达到次数"}, Kind: kit.Whole, Required: true},
			{Name: "window_seconds", Label: kit.Text{"Time window (seconds)", "统计时长（秒）"}, Kind: kit.Whole},
			{
				Name: "action", Label: kit.Text{"Action", "处理方式"}, Required: true,
				Kind: kit.Choice, Options: []string{"short_window", "later", "chance", "none"}, Words: map[string]kit.Text{"none": {"Not admitted", "不予放行"}},
			},
			{Name: "amount", Label: kit.Text{"Value: seconds to pay, delay in ms, or a probability below 1", "数值：支付秒数、延后毫秒数或小于 1 的概率"}, Kind: kit.Number},
			{Name: "dry_run_until", Label: kit.Text{"Dry run until", "试运行至"}, Kind: kit.Moment},
			{Name: "expires_at", Label: kit.Text{"Expires (leave empty for never)", "有效至（留空为永久）"}, Kind: kit.Moment},
			{Name: "reason", Label: kit.Text{"Reason (staff only)", "说明（仅员工可见）"}, Max: 500},
		},
	},
	{
		Path: risk + "/{id}/remove", API: "DELETE " + api + "/risk/rules/{id}",
		Title: kit.Text{"Remove", "移除"}, Done: kit.Text{"The rule is removed.", "规则已移除。"},
	},
}

var riskWords = map[string]kit.Text{
	"unpaid_holds": {"Orders left unpaid", "未付款订单数"}, "open_unpaid": {"Orders waiting for payment", "待付款订单数"},
	"short_window": {"Less time to pay", "缩短支付时间"}, "later": {"Admitted later", "延后放行"}, "chance": {"Admitted by chance", "按概率放行"},
	"short-window":      {"Less time to pay", "缩短支付时间"},
	"refused-by-chance": {"Refused by chance", "概率未通过"}, "dry-run": {"Dry run", "试运行"},
}
