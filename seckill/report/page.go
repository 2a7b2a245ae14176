package report

import (
	"bytes"
	"cmp"
	_ "embed" // the page
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"

	"stampede/platform/edge/httpx"
)

//go:embed page.html
var pageSource string

var page = template.Must(template.New("report").Parse(pageSource))

// words are the page's texts in one language.
type words struct {
	Lang, Report, Opened, Closed, Made, Items, Item, Units, SoldOutAfter, Sold, Held, Difference, Attempts, Refused, Created, Paid, Unpaid, Returned,
	SoldAgain, Refunds, Answers, Share, Latency, Alarms, None, Proof, NotProved, Advice, WaitIs, VisibleIs, Tried, Granted, Orders, Unlimited, NotEmptied, DoNext string
	Proofs map[string]string
}

var pageWords = map[httpx.Language]words{
	httpx.English: {
		Lang: "en", Report: "Sale report", Opened: "Opened", Closed: "Closed", Made: "Made", Items: "Items", Item: "Item", Units: "Units", SoldOutAfter: "Taken after",
		Sold: "Sold", Held: "Held", Difference: "Difference", Attempts: "Attempts", Refused: "Refused", Created: "Orders", Paid: "Paid", Unpaid: "Closed unpaid",
		Returned: "Units returned", SoldAgain: "Sold again", Refunds: "Refunds", Answers: "Answers to attempts", Share: "Share", Latency: "Latency (upper bounds)", Alarms: "Alarms and incidents",
		None: "None.", Proof: "Proof of the books", NotProved: "The books have not been proved yet.", Advice: "Next time", WaitIs: "In line until the answer", VisibleIs: "Grant until the order is readable",
		Tried: "Attempts per step", Granted: "Granted", Orders: "Orders so far", Unlimited: "unlimited", NotEmptied: "not taken", DoNext: "Next action",
		Proofs: map[string]string{"proved": "Proved", "violated": "Violated", "failed": "Could not be proved"},
	},
	httpx.Chinese: {
		Lang: "zh", Report: "场次报告", Opened: "开始", Closed: "结束", Made: "生成时间", Items: "商品", Item: "商品", Units: "件数", SoldOutAfter: "抢空用时",
		Sold: "已售", Held: "待付款", Difference: "差额", Attempts: "抢购请求", Refused: "未抢到", Created: "订单", Paid: "已付款", Unpaid: "未付关闭",
		Returned: "退回件数", SoldAgain: "再次售出", Refunds: "退款", Answers: "请求的答复", Share: "占比", Latency: "延迟（上限）", Alarms: "告警与故障",
		None: "无。", Proof: "账目核验", NotProved: "尚未核验账目。", Advice: "下次改进", WaitIs: "排队到答复", VisibleIs: "抢到至订单可查",
		Tried: "每步请求数", Granted: "抢到", Orders: "累计订单", Unlimited: "不限", NotEmptied: "未抢空", DoNext: "处理办法",
		Proofs: map[string]string{"proved": "核验通过", "violated": "发现问题", "failed": "未能完成核验"},
	},
}

// answer is a row of the table of answers.
type answer struct {
	Code  string
	Count int64
	Share string
}

// data is the template's.
type data struct {
	*Report
	W                    words
	Opens, Closes, At    string
	Rows                 []answer
	TriedChart, EndChart template.HTML
}

// Taken is how long an item took to be taken.
func (d data) Taken(i ItemOutcome) string {
	switch {
	case i.SecondsToEmpty != nil:
		return fmt.Sprintf("%.1f s", *i.SecondsToEmpty)
	case i.Unlimited:
		return d.W.Unlimited
	default:
		return d.W.NotEmptied
	}
}

// Local is an advice in the page's language.
func (d data) Local(a Advice) string {
	if d.W.Lang == "zh" {
		return a.Zh
	}
	return a.En
}

// What names a latency.
func (d data) What(l LatencyBounds) string {
	if l.What == "wait" {
		return d.W.WaitIs
	}
	return d.W.VisibleIs
}

// Clock is a moment in the shop's zone.
func clock(at time.Time, zone *time.Location) string {
	return at.In(zone).Format("2006-01-02 15:04:05 MST")
}

// edged adds the empty steps beside a gap, of which the curve has none, so that a
// line falls to 0 and rises where it did.
func edged(curve []CurveStep, step time.Duration) (all []CurveStep) {
	var last time.Time
	for _, p := range curve {
		if !last.IsZero() && p.At.Sub(last) > step {
			all = append(all, CurveStep{At: last.Add(step)}, CurveStep{At: p.At.Add(-step)})
		}
		all, last = append(all, p), p.At
	}
	return all
}

// HTML is the report as one page without scripts or anything to load, for a
// printer, with times in the shop's zone.
func (r *Report) HTML(lang httpx.Language, zone *time.Location) ([]byte, error) {
	w := pageWords[lang]
	d := data{Report: r, W: w, Opens: clock(r.OpensAt, zone), Closes: clock(r.ClosesAt, zone), At: clock(r.MadeAt, zone)}
	codes := r.Funnel["answers"]
	for _, code := range slices.SortedFunc(maps.Keys(codes), func(a, b string) int { return cmp.Or(cmp.Compare(codes[b], codes[a]), strings.Compare(a, b)) }) {
		d.Rows = append(d.Rows, answer{code, codes[code], fmt.Sprintf("%.1f %%", 100*share(codes[code], r.Orders.Attempts))})
	}
	tried := []line{{w.Granted, "#0a7d38", nil}, {w.Refused, "#b3261e", nil}}
	ends := []line{{w.Created, "#1f5fbf", nil}, {w.Paid, "#0a7d38", nil}, {w.Unpaid, "#b3261e", nil}}
	var sum CurveStep
	for _, p := range edged(r.Curve, time.Duration(r.Step)*time.Second) {
		sum.Created, sum.Paid, sum.Unpaid = sum.Created+p.Created, sum.Paid+p.Paid, sum.Unpaid+p.Unpaid
		tried[0].add(p.At, p.Granted)
		tried[1].add(p.At, p.Refused)
		ends[0].add(p.At, sum.Created)
		ends[1].add(p.At, sum.Paid)
		ends[2].add(p.At, sum.Unpaid)
	}
	d.TriedChart, d.EndChart = chart(tried, zone), chart(ends, zone)
	var b bytes.Buffer
	if err := page.Execute(&b, d); err != nil {
		return nil, fmt.Errorf("report: render: %w", err)
	}
	return b.Bytes(), nil
}
