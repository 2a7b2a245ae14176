package report

import (
	"strconv"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

// pageWords are the texts of the page: those that its template names, and by kind the names of
// what it reads. tried-N heads the attempts by the N seconds of a step, answer-CODE are the
// answers that are no refusals with a title of their own.
var pageWords = map[string]fault.Text{
	"Lang":        {"en", "zh"},
	"Report":      {"Sale report", "场次报告"},
	"Opened":      {"Opened", "开始"},
	"Closed":      {"Closed", "结束"},
	"Made":        {"Generated", "生成时间"},
	"Items":       {"Items", "商品"},
	"Item":        {"Item", "商品"},
	"Units":       {"Units", "件数"},
	"TakenAfter":  {"All taken in", "抢空用时"},
	"Sold":        {"Sold", "已售"},
	"Held":        {"Awaiting payment", "待付款"},
	"WrittenOff":  {"Written off", "报损"},
	"Difference":  {"Unaccounted", "对不上"},
	"Attempts":    {"Attempts", "抢购请求"},
	"Refused":     {"Refused", "未抢到"},
	"Created":     {"Orders", "订单"},
	"Paid":        {"Paid", "已付款"},
	"Unpaid":      {"Closed unpaid", "未付款关闭"},
	"Returned":    {"Unpaid units returned", "未付款退回件数"},
	"SoldAgain":   {"Units sold again", "再次售出件数"},
	"Refunds":     {"Refunds", "退款"},
	"Answers":     {"Answers to attempts", "抢购请求的结果"},
	"PathAnswers": {"Answers to requests for a rush path", "获取抢购链接的结果"},
	"Answer":      {"Answer", "结果"},
	"Meaning":     {"Meaning", "含义"},
	"Count":       {"Count", "次数"},
	"Share":       {"Share", "占比"},
	"Latency":     {"Latency", "延迟"},
	"LatencyNote": {
		"Measured by the server in steps: half (p50) or 99 % (p99) took no longer than this. Attempts answered from memory did not wait in line and are not counted.",
		"由服务器分档统计：一半（p50）或 99%（p99）的请求不超过此值。直接从内存答复的请求不排队，未计入。",
	},
	"Alarms":                {"Alarms and incidents", "告警与故障"},
	"None":                  {"None.", "无。"},
	"Proof":                 {"Proof of the books", "账目核验"},
	"NotProved":             {"The books have not been proved yet.", "尚未核验账目。"},
	"Advice":                {"Next time", "下次改进"},
	"wait":                  {"In line until the answer", "排队到答复"},
	"visible":               {"Grant until the order is readable", "抢到至订单可查"},
	"Granted":               {"In line", "抢到"},
	"Orders":                {"Orders so far", "累计订单"},
	"Unlimited":             {"unlimited", "不限"},
	"NotTaken":              {"some left", "有剩余"},
	"DoNext":                {"Next action", "处理办法"},
	"answer-admission-rate": {"Above the operator's admission rate", "超过运营设置的放行速率"},
	"answer-issued":         {"Path issued", "已获得链接"},
	"answer-left":           {"Gave up while waiting", "等待中离开"},
	"answer-queued":         {"In line, with a unit", "抢到，等待生成订单"},
	"answer-repeated":       {"The same attempt again, same answer", "重复提交，结果不变"},
	"Critical":              {"critical", "严重"},
	"proof-failed":          {"Could not be proved", "未能完成核验"},
	"proof-proved":          {"Proved", "核验通过"},
	"proof-violated":        {"Violated", "发现问题"},
	"severity-critical":     {"critical", "严重"},
	"severity-warning":      {"warning", "警告"},
	"tried-1":               {"Attempts per second", "每秒抢购请求"},
	"tried-3600":            {"Attempts per hour", "每小时抢购请求"},
	"tried-60":              {"Attempts per minute", "每分钟抢购请求"},
	"tried":                 {"Attempts per {step} seconds", "每 {step} 秒抢购请求"},
	"Warning":               {"warning", "警告"},
}

// tried is the heading of the attempts per step.
func tried(step int) fault.Text {
	if text, known := pageWords["tried-"+strconv.Itoa(step)]; known {
		return text
	}
	return fault.T(pageWords["tried"][0], pageWords["tried"][1], "step", step)
}

// Meaning is what an answer's code says, in words.
func Meaning(code string, lang httpx.Language) string {
	if text, known := pageWords["answer-"+code]; known {
		return text[lang]
	}
	if declared := fault.Codes()[code]; declared != nil {
		return declared.Title[lang]
	}
	return ""
}
