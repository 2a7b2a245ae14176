package report

import (
	"fmt"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/alarm"
)

// words are the page's texts in one language.
type words struct {
	Lang, Report, Opened, Closed, Made, Items, Item, Units, TakenAfter, Sold, Held, WrittenOff, Difference, Attempts, Refused, Created, Paid, Unpaid, Returned,
	SoldAgain, Refunds, Answers, PathAnswers, Answer, Meaning, Count, Share, Latency, LatencyNote, Alarms, None, Proof, NotProved, Advice, WaitIs, VisibleIs,
	Granted, Orders, Unlimited, NotTaken, DoNext string
	// Tried is the heading of the attempts by the seconds of a step; TriedOther takes others.
	Tried      map[int]string
	TriedOther string
	Proofs     map[string]string
	Severities map[alarm.Severity]string
	// Codes are the answers that are no refusals with a title of their own.
	Codes map[string]string
}

var pageWords = map[httpx.Language]words{
	httpx.English: {
		Lang: "en", Report: "Sale report", Opened: "Opened", Closed: "Closed", Made: "Generated", Items: "Items", Item: "Item", Units: "Units", TakenAfter: "All taken in",
		Sold: "Sold", Held: "Awaiting payment", WrittenOff: "Written off", Difference: "Unaccounted", Attempts: "Attempts", Refused: "Refused", Created: "Orders", Paid: "Paid", Unpaid: "Closed unpaid",
		Returned: "Unpaid units returned", SoldAgain: "Units sold again", Refunds: "Refunds", Answers: "Answers to attempts", PathAnswers: "Answers to requests for a rush path",
		Answer: "Answer", Meaning: "Meaning", Count: "Count", Share: "Share", Latency: "Latency", Alarms: "Alarms and incidents",
		LatencyNote: "Measured by the server in steps: half (p50) or 99 % (p99) took no longer than this. Attempts answered from memory did not wait in line and are not counted.",
		None:        "None.", Proof: "Proof of the books", NotProved: "The books have not been proved yet.", Advice: "Next time", WaitIs: "In line until the answer", VisibleIs: "Grant until the order is readable",
		Granted: "In line", Orders: "Orders so far", Unlimited: "unlimited", NotTaken: "some left", DoNext: "Next action",
		Tried:      map[int]string{1: "Attempts per second", 60: "Attempts per minute", 3600: "Attempts per hour"},
		TriedOther: "Attempts per %d seconds",
		Proofs:     map[string]string{"proved": "Proved", "violated": "Violated", "failed": "Could not be proved"},
		Severities: map[alarm.Severity]string{alarm.Warning: "warning", alarm.Critical: "critical"},
		Codes: map[string]string{
			"queued": "In line, with a unit", "repeated": "The same attempt again, same answer", "left": "Gave up while waiting", "admission-rate": "Above the operator's admission rate",
			"issued": "Path issued",
		},
	},
	httpx.Chinese: {
		Lang: "zh", Report: "场次报告", Opened: "开始", Closed: "结束", Made: "生成时间", Items: "商品", Item: "商品", Units: "件数", TakenAfter: "抢空用时",
		Sold: "已售", Held: "待付款", WrittenOff: "报损", Difference: "对不上", Attempts: "抢购请求", Refused: "未抢到", Created: "订单", Paid: "已付款", Unpaid: "未付款关闭",
		Returned: "未付款退回件数", SoldAgain: "再次售出件数", Refunds: "退款", Answers: "抢购请求的结果", PathAnswers: "获取抢购链接的结果",
		Answer: "结果", Meaning: "含义", Count: "次数", Share: "占比", Latency: "延迟", Alarms: "告警与故障",
		LatencyNote: "由服务器分档统计：一半（p50）或 99%（p99）的请求不超过此值。直接从内存答复的请求不排队，未计入。",
		None:        "无。", Proof: "账目核验", NotProved: "尚未核验账目。", Advice: "下次改进", WaitIs: "排队到答复", VisibleIs: "抢到至订单可查",
		Granted: "抢到", Orders: "累计订单", Unlimited: "不限", NotTaken: "有剩余", DoNext: "处理办法",
		Tried:      map[int]string{1: "每秒抢购请求", 60: "每分钟抢购请求", 3600: "每小时抢购请求"},
		TriedOther: "每 %d 秒抢购请求",
		Proofs:     map[string]string{"proved": "核验通过", "violated": "发现问题", "failed": "未能完成核验"},
		Severities: map[alarm.Severity]string{alarm.Warning: "警告", alarm.Critical: "严重"},
		Codes: map[string]string{
			"queued": "抢到，等待生成订单", "repeated": "重复提交，结果不变", "left": "等待中离开", "admission-rate": "超过运营设置的放行速率",
			"issued": "已获得链接",
		},
	},
}

// tried is the heading of the attempts per step.
func (w *words) tried(step int) string {
	if text := w.Tried[step]; text != "" {
		return text
	}
	return fmt.Sprintf(w.TriedOther, step)
}

// Meaning is what an answer's code says, in words.
func Meaning(code string, lang httpx.Language) string {
	if text := pageWords[lang].Codes[code]; text != "" {
		return text
	}
	if declared := fault.Codes()[code]; declared != nil {
		return declared.Title[lang]
	}
	return ""
}
