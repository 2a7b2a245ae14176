package office

import kit "stampede/platform/edge/office"

// words are the states of sales as operators read them.
var words = map[string]kit.Text{
	"draft": {"Draft", "草稿"}, "scheduled": {"Published", "已发布"}, "running": {"Running", "进行中"}, "ended": {"Ended", "已结束"}, "terminated": {"Ended by the shop", "已终止"},
	"pow": {"Proof of work, unseen", "无感验证"}, "slide": {"Slide", "滑块验证"}, "verifier": {"The service that is set up", "第三方验证"},
	"optional": {"May be given", "选填"}, "required": {"Must be given", "必填"}, "return": {"Back on sale", "退回库存"}, "write_off": {"Written off", "核销"},
	"ok": {"Fine", "正常"}, "warning": {"Warning", "注意"}, "stop": {"Stop", "不可开场"},
}
