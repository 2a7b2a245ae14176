package office

import kit "stampede/platform/edge/office"

// words are the states of sales as operators read them.
var words = map[string]kit.Text{
	"activity ": {"activity ", "活动 "}, "session ": {"session ", "场次 "}, "item ": {"item ", "商品 "}, // before a number, see Call.Subject
	"draft": {"Draft", "草稿"}, "scheduled": {"Published", "已发布"}, "running": {"Running", "进行中"}, "ended": {"Ended", "已结束"}, "terminated": {"Ended by the shop", "已终止"},
	"pow": {"Invisible check", "无感验证"}, "slide": {"Slider", "滑块验证"}, "verifier": {"Third-party service", "第三方验证"},
	"optional": {"Optional", "选填"}, "required": {"Required", "必填"}, "return": {"Restock", "退回库存"}, "write_off": {"Write off", "报损"},
	"ok": {"OK", "正常"}, "warning": {"Warning", "注意"}, "stop": {"Blocker", "不可开售"},
}
