package office

import (
	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

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
		Path: risk + "/add", API: "POST " + api + "/risk/rules", Role: auth.Operator, On: risk,
		Title: kit.Text{"Add a rule", "添加规则"}, Done: kit.Text{"Rule added.", "规则已添加。"},
		Warning: kit.Text{"Start with a dry run: the rule restricts no one, and the log below lists who it would have affected.", "建议先试运行：期间不限制任何人，下方会列出本应受限的用户。"},
		Fields: []kit.Field{
			{Name: "kind", Label: kit.Text{"Counts", "统计项"}, Kind: kit.Choice, Options: []string{"unpaid_holds", "open_unpaid"}, Required: true},
			{Name: "threshold", Label: kit.Text{"Threshold", "达到次数"}, Kind: kit.Whole, Required: true},
			{Name: "window_seconds", Label: kit.Text{"Time window (seconds)", "统计时长（秒）"}, Kind: kit.Whole},
			{Name: "action", Label: kit.Text{"Action", "处理方式"}, Kind: kit.Choice, Options: []string{"short_window", "later", "chance", "none"}, Words: map[string]kit.Text{"none": {"Not admitted", "不予放行"}}, Required: true},
			{Name: "amount", Label: kit.Text{"Value: seconds to pay, delay in ms, or a probability below 1", "数值：支付秒数、延后毫秒数或小于 1 的概率"}, Kind: kit.Number},
			{Name: "dry_run_until", Label: kit.Text{"Dry run until", "试运行至"}, Kind: kit.Moment},
			{Name: "expires_at", Label: kit.Text{"Expires (leave empty for never)", "有效至（留空为永久）"}, Kind: kit.Moment},
			{Name: "note", Label: kit.Text{"Note (staff only)", "说明（仅员工可见）"}, Max: 500},
		},
	},
	{
		Path: risk + "/{id}/remove", API: "DELETE " + api + "/risk/rules/{id}", Role: auth.Operator,
		Title: kit.Text{"Remove", "移除"}, Done: kit.Text{"The rule is removed.", "规则已移除。"},
	},
}

var riskWords = map[string]kit.Text{
	"unpaid_holds": {"Orders left unpaid", "未付款订单数"}, "open_unpaid": {"Orders waiting for payment", "待付款订单数"},
	"short_window": {"Less time to pay", "缩短支付时间"}, "later": {"Admitted later", "延后放行"}, "chance": {"Admitted by chance", "按概率放行"}, "short-window": {"Less time to pay", "缩短支付时间"},
	"refused-by-chance": {"Refused by chance", "概率未通过"}, "dry-run": {"Dry run", "试运行"},
}
