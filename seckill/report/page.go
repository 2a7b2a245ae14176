package report

import (
	"bytes"
	"cmp"
	_ "embed" // the page
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

//go:embed page.html
var pageSource string

var page = template.Must(template.New("report").Funcs(template.FuncMap{"count": grouped}).Parse(pageSource))

// answer is a row of a table of answers.
type answer struct {
	Code, Meaning string
	Count         int64
	Share         string
}

// answers are the rows of a stage's codes, the most frequent first.
func answers(codes map[string]int64, lang httpx.Language) (rows []answer) {
	all := int64(0)
	for _, n := range codes {
		all += n
	}
	for _, code := range slices.SortedFunc(maps.Keys(codes), func(a, b string) int { return cmp.Or(cmp.Compare(codes[b], codes[a]), strings.Compare(a, b)) }) {
		rows = append(rows, answer{code, Meaning(code, lang), codes[code], fmt.Sprintf("%.1f %%", 100*share(codes[code], all))})
	}
	return rows
}

type data struct {
	*Report
	lang                 httpx.Language
	zone                 *time.Location
	Tried                string
	Rows, PathRows       []answer
	TriedChart, EndChart template.HTML
}

// Taken is how long an item took to be taken.
func (d data) Taken(i ItemOutcome) string {
	switch {
	case i.SecondsToEmpty != nil && *i.SecondsToEmpty < 10:
		return fmt.Sprintf("%.2f s", *i.SecondsToEmpty)
	case i.SecondsToEmpty != nil && *i.SecondsToEmpty < 300:
		return fmt.Sprintf("%.0f s", *i.SecondsToEmpty)
	case i.SecondsToEmpty != nil:
		return fmt.Sprintf("%.0f min", *i.SecondsToEmpty/60)
	case i.Unlimited:
		return "–"
	default:
		return d.W("NotTaken")
	}
}

// W is a text of the page in its language.
func (d data) W(name string) string { return pageWords[name][d.lang] }

// Local is an advice in the page's language.
func (d data) Local(a Advice) string { return [...]string{a.En, a.Zh}[d.lang] }

// Clock is a moment in the shop's zone, which has the name that the back office shows.
func (d data) Clock(at time.Time) string {
	return at.In(d.zone).Format(time.DateTime) + " " + d.zone.String()
}

// ProvedAt is when the proof ended, in the shop's zone.
func (d data) ProvedAt() string {
	ended, err := time.Parse(time.RFC3339, d.Proof.EndedAt)
	if err != nil {
		return d.Proof.EndedAt
	}
	return d.Clock(ended)
}

// OfPaths is the data with the answers to requests for a path in place of those to attempts.
func (d data) OfPaths() data { d.Rows = d.PathRows; return d }

// edged adds the empty steps around what happened, of which the curve has none, so
// that a line rises from 0 and falls to it where it did.
func edged(curve []CurveStep, step time.Duration) (all []CurveStep) {
	var last time.Time
	for _, p := range curve {
		if p.At.Sub(last) > step {
			if !last.IsZero() {
				all = append(all, CurveStep{At: last.Add(step)})
			}
			all = append(all, CurveStep{At: p.At.Add(-step)})
		}
		all, last = append(all, p), p.At
	}
	if !last.IsZero() {
		all = append(all, CurveStep{At: last.Add(step)})
	}
	return all
}

// HTML is the report as one page without scripts or anything to load, for a
// printer, with times in the shop's zone.
func (r *Report) HTML(lang httpx.Language, zone *time.Location) ([]byte, error) {
	d := data{
		Report: r, lang: lang, zone: zone, Tried: tried(r.Step)[lang],
		Rows: answers(r.Funnel["answers"], lang), PathRows: answers(r.Funnel["paths"], lang),
	}
	const green, red, blue, dashes, dots = "#0a7d38", "#b3261e", "#1f5fbf", "7 3", "2 3"
	tried := []line{{d.W("Granted"), green, "", nil}, {d.W("Refused"), red, dashes, nil}}
	ends := []line{{d.W("Created"), blue, "", nil}, {d.W("Paid"), green, dots, nil}, {d.W("Unpaid"), red, dashes, nil}}
	var sum CurveStep
	step := time.Duration(r.Step) * time.Second
	for _, p := range edged(r.Curve, step) {
		p.At = p.At.Add(step / 2) // the step's middle: what followed the opening is drawn behind it
		sum.Created, sum.Paid, sum.Unpaid = sum.Created+p.Created, sum.Paid+p.Paid, sum.Unpaid+p.Unpaid
		tried[0].add(p.At, p.Granted)
		tried[1].add(p.At, p.Refused)
		ends[0].add(p.At, sum.Created)
		ends[1].add(p.At, sum.Paid)
		ends[2].add(p.At, sum.Unpaid)
	}
	opened := moment{d.W("Opened"), r.OpensAt}
	d.TriedChart, d.EndChart = chart(d.Tried, tried, opened, zone), chart(d.W("Orders"), ends, opened, zone)
	var b bytes.Buffer
	if err := page.Execute(&b, d); err != nil {
		return nil, fmt.Errorf("report: render: %w", err)
	}
	return b.Bytes(), nil
}

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
	"Left":        {"Left", "剩余"},
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
	"Alarms": {"Alarms and incidents", "告警与故障"},
	"None":   {"None.", "无。"},
	"Proof":  {"Proof of the books", "账目核对"},
	"NotProved": {
		"The books have not been proved yet: press \"Prove now\" on the back office's page \"Proofs of the books\", or run stampede verify.",
		"尚未核对账目：请在管理后台“账目核对”页点击“立即核对账目”，或运行 stampede verify。",
	},
	"Advice":                {"Next time", "下次改进"},
	"wait":                  {"In line until the answer", "排队到答复"},
	"visible":               {"Grant until the order is readable", "抢到至订单可查"},
	"Granted":               {"In line", "抢到"},
	"Orders":                {"Orders so far", "累计订单"},
	"Unlimited":             {"unlimited", "不限"},
	"NotTaken":              {"some left", "有剩余"},
	"DoNext":                {"Next action", "处理办法"},
	"answer-wait-your-turn": {"Asked while in line by the admission rate", "按放行速率排队，等待中"},
	"answer-issued":         {"Path issued", "已获得链接"},
	"answer-left":           {"Gave up while waiting", "等待中离开"},
	"answer-queued":         {"In line, with a unit", "抢到，等待生成订单"},
	"answer-repeated":       {"The same attempt again, same answer", "重复提交，结果不变"},
	"proof-failed":          {"Could not be proved", "未能完成核对"},
	"proof-proved":          {"Proved", "核对通过"},
	"proof-violated":        {"Violated", "发现问题"},
	"severity-critical":     {"critical", "严重"},
	"severity-warning":      {"warning", "警告"},
	"tried-1":               {"Attempts per second", "每秒抢购请求"},
	"tried-3600":            {"Attempts per hour", "每小时抢购请求"},
	"tried-60":              {"Attempts per minute", "每分钟抢购请求"},
	"tried":                 {"Attempts per {step} seconds", "每 {step} 秒抢购请求"},
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
