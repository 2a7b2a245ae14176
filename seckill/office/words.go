package office

import kit "stampede/platform/edge/office"

// words are the states of sales as operators read them.
var words = map[string]kit.Text{
	"draft": {"Draft", "草稿"}, "scheduled": {"Published", "已发布"}, "running": {"Running", "进行中"}, "ended": {"Ended", "已结束"}, "terminated": {"Ended by the shop", "已终止"},
	"ok": {"Fine", "正常"}, "warning": {"Warning", "注意"}, "stop": {"Stop", "不可开场"},
}
