package loadgen

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is what a run found.
type Report struct {
	ItemID    int64              `json:"item_id,string"`
	Title     string             `json:"title"`
	Shoppers  int                `json:"shoppers"`
	Sockets   int                `json:"sockets"`
	Seconds   float64            `json:"seconds"`    // from the first attempt to the last answer
	PerSecond float64            `json:"per_second"` // attempts answered, over that time
	Answers   map[string]int64   `json:"answers"`
	Chart     []map[string]int64 `json:"chart"` // answers by kind for each second
	Latency   map[string]Latency `json:"latency_ms"`
	// AllVisible is seconds from the first attempt until every winner had an
	// order.
	AllVisible float64          `json:"all_winners_had_orders_after_seconds"`
	Outcomes   map[string]int64 `json:"outcomes"` // winners by the last status they were told
	Troubles   map[string]int64 `json:"troubles,omitempty"`
	Violations []Violation      `json:"violations"`

	Entries []Entry `json:"-"`
}

// Latency is a distribution in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// histogram covers 1 µs to 5 min with three significant figures.
func histogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(5*time.Minute/time.Microsecond), 3)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), int64(5*time.Minute/time.Microsecond))) // clamped into the range, so it cannot fail
}

func summarize(h *hdrhistogram.Histogram) Latency {
	ms := func(v int64) float64 { return float64(v) / 1000 }
	return Latency{h.TotalCount(), ms(h.ValueAtQuantile(50)), ms(h.ValueAtQuantile(90)), ms(h.ValueAtQuantile(99)), ms(h.Max())}
}

func (r *run) report(began time.Duration, v Volley) *Report {
	rep := &Report{
		ItemID: r.cfg.ItemID, Title: r.item.Title, Shoppers: len(r.shoppers), Sockets: r.sockets.open,
		Seconds: v.Elapsed.Seconds(), PerSecond: v.PerSecond(), Outcomes: map[string]int64{},
		Entries: r.Entries(r.cfg.FirstUser),
	}
	visible, push := histogram(), histogram()
	for i := range r.shoppers {
		s := &r.shoppers[i]
		status, seen, pushed := "", time.Duration(0), time.Duration(0)
		if s.trail != nil {
			if status, seen, pushed = s.trail.state(); status == gone {
				status = ""
			}
		}
		if s.answer != idQueued && s.answer != idNone {
			continue
		}
		if status == "" {
			status = "still queued"
			if s.answer == idNone {
				status = "never arrived"
			}
		}
		rep.Outcomes[status]++
		if s.answer == idQueued && seen == 0 {
			r.tally.violate(s.no.String(), "was answered 202 and had no end when the run gave up waiting")
		}
		if seen != 0 {
			rep.AllVisible = max(rep.AllVisible, (seen - began).Seconds())
			if s.trail.eager || seen == pushed { // the others asked when the server told them to
				record(visible, seen-s.sent)
			}
		}
		if pushed != 0 {
			record(push, pushed-s.sent)
		} else if i < r.sockets.open && seen != 0 {
			r.tally.trouble("no push reached an open socket")
		}
	}
	rep.Latency = map[string]Latency{
		"refusal": v.Refusal, "grant": v.Grant, "order visible": summarize(visible), "push": summarize(push),
	}
	rep.Answers, rep.Chart = r.tally.counts(), r.tally.chart()
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	rep.Troubles = maps.Clone(r.tally.troubles)
	rep.Violations = append([]Violation{}, r.tally.violations...)
	return rep
}

// NoPath reports whether not one shopper got as far as rushing, and the code
// that most of them were refused a path with.
func (rep *Report) NoPath() (code string, all bool) {
	for _, kv := range byCount(rep.Answers) {
		refused, noPath := strings.CutPrefix(kv.key, pathRefused)
		if !noPath {
			return "", false
		}
		if code == "" {
			code = refused
		}
	}
	return code, code != ""
}

// Write prints the report for a person.
func (rep *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d shoppers rushed item %d %q in %.2f s: %.0f answers/s\n\n", rep.Shoppers, rep.ItemID, rep.Title, rep.Seconds, rep.PerSecond)
	rep.writeChart(&b)
	b.WriteString("answers\n")
	for _, kv := range byCount(rep.Answers) {
		fmt.Fprintf(&b, "  %-18s %9d  %5.1f %%\n", kv.key, kv.n, 100*float64(kv.n)/float64(max(rep.Shoppers, 1)))
	}
	fmt.Fprintf(&b, "\n%-15s %9s %9s %9s %9s %9s\n", "latency (ms)", "count", "p50", "p90", "p99", "max")
	for _, name := range []string{"refusal", "grant", "order visible", "push"} {
		if l := rep.Latency[name]; l.Count > 0 {
			fmt.Fprintf(&b, "  %-13s %9d %9.1f %9.1f %9.1f %9.1f\n", name, l.Count, l.P50, l.P90, l.P99, l.Max)
		}
	}
	if len(rep.Outcomes) > 0 {
		fmt.Fprintf(&b, "\nwinners: every order was visible %.2f s after the first attempt\n", rep.AllVisible)
		for _, kv := range byCount(rep.Outcomes) {
			fmt.Fprintf(&b, "  %-18s %9d\n", kv.key, kv.n)
		}
	}
	for _, kv := range byCount(rep.Troubles) {
		fmt.Fprintf(&b, "note: %s (%d times)\n", kv.key, kv.n)
	}
	for _, v := range rep.Violations {
		fmt.Fprintf(&b, "BROKEN PROMISE: order %s %s\n", v.OrderNo, v.Detail)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// chartRows bounds the chart to what fits a screen; longer runs merge seconds.
const chartRows = 20

func (rep *Report) writeChart(b *strings.Builder) {
	if len(rep.Chart) == 0 {
		return
	}
	step := (len(rep.Chart) + chartRows - 1) / chartRows
	type row struct{ granted, refused int64 }
	var rows []row
	var most int64 = 1
	for i := 0; i < len(rep.Chart); i += step {
		var r row
		for _, second := range rep.Chart[i:min(i+step, len(rep.Chart))] {
			for code, n := range second {
				if code == answerQueued {
					r.granted += n
				} else {
					r.refused += n
				}
			}
		}
		rows = append(rows, r)
		most = max(most, r.granted+r.refused)
	}
	fmt.Fprintf(b, "second   answers   (█ in line, ░ refused)\n")
	for i, r := range rows {
		const width = 50
		all := int((r.granted + r.refused) * width / most)
		won := int(r.granted * width / most)
		if r.granted > 0 && won == 0 {
			won, all = 1, max(all, 1)
		}
		fmt.Fprintf(b, "%6d %9d   %s%s\n", i*step, r.granted+r.refused, strings.Repeat("█", won), strings.Repeat("░", all-won))
	}
	b.WriteByte('\n')
}

type counted struct {
	key string
	n   int64
}

func byCount(m map[string]int64) []counted {
	out := make([]counted, 0, len(m))
	for k, n := range m {
		out = append(out, counted{k, n})
	}
	slices.SortFunc(out, func(a, b counted) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.key, b.key)) })
	return out
}
