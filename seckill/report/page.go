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

// data is the template's.
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

// Clock is a moment in the shop's zone.
func (d data) Clock(at time.Time) string { return at.In(d.zone).Format("2006-01-02 15:04:05 MST") }

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
