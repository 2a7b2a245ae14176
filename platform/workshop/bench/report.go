package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the result of a run.
type Report struct {
	Machine string    `json:"machine"`
	Cores   int       `json:"cores"`
	At      time.Time `json:"at"`
	Rounds  int       `json:"rounds"`
	// Quick means that the figures are meaningless, see [Config.Quick].
	Quick bool `json:"quick"`
	// Instances on clusters, see [NewRig].
	Instances int `json:"instances,omitempty"`

	Stages []Result `json:"stages"`
}

// Result is a run's result for one stage; rates, processor times and figures
// are the medians of the rounds.
type Result struct {
	*Stage

	BaselinePerSecond float64 `json:"baseline_per_second"`
	OursPerSecond     float64 `json:"ours_per_second"`
	Ratio             float64 `json:"ratio"`
	RatioLow          float64 `json:"ratio_low"`
	RatioHigh         float64 `json:"ratio_high"`

	// Processor microseconds per operation, by process.
	BaselineCPU map[string]float64 `json:"baseline_cpu_us"`
	OursCPU     map[string]float64 `json:"ours_cpu_us"`

	Findings []Finding `json:"figures,omitempty"`
	Profile  string    `json:"profile,omitempty"`
	OK       bool      `json:"ok"`
}

// Finding is a figure with its value.
type Finding struct {
	Figure
	Value float64 `json:"value"`
	OK    bool    `json:"ok"`
}

// OK reports whether every target was met.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Stages, func(s Result) bool { return !s.OK })
}

// result reduces the rounds to medians. The ratio is the median of the rounds'
// ratios, not the ratio of the medians: each compares two runs under the same
// conditions.
func (m *measurement) result() Result {
	st := m.stage
	res := Result{
		Stage: st, Profile: m.profile,
		BaselinePerSecond: median(each(m.baseline, func(r round) float64 { return r.perSecond })),
		OursPerSecond:     median(each(m.ours, func(r round) float64 { return r.perSecond })),
		BaselineCPU:       cpuOf(m.baseline), OursCPU: cpuOf(m.ours),
	}
	ratios := make([]float64, len(m.ours))
	for i := range ratios {
		ratios[i] = m.ours[i].perSecond / m.baseline[i].perSecond
	}
	res.Ratio, res.RatioLow, res.RatioHigh = median(ratios), slices.Min(ratios), slices.Max(ratios)
	// A stage without a target has 0 there, which is always reached.
	res.OK = res.Ratio >= st.Target && res.OursPerSecond >= st.AtLeast
	for _, f := range st.Figures {
		v := median(each(m.ours, func(r round) float64 { return r.figures[f.Name] }))
		found := Finding{Figure: f, Value: v, OK: f.AtMost == 0 || v <= f.AtMost}
		res.Findings = append(res.Findings, found)
		res.OK = res.OK && found.OK
	}
	return res
}

func each(rounds []round, value func(round) float64) []float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = value(r)
	}
	return values
}

// cpuOf is the median processor time per operation in microseconds, by process.
func cpuOf(rounds []round) map[string]float64 {
	names := map[string]bool{}
	for _, r := range rounds {
		for name := range r.cpu {
			names[name] = name != nameSelf
		}
	}
	all := map[string]float64{}
	for name, counts := range names {
		us := median(each(rounds, func(r round) float64 { return float64(r.cpu[name].Nanoseconds()) / 1000 }))
		if us > 0 && counts {
			all[name] = us
		}
	}
	return all
}

// verdict is the table's text beside the target, empty if there is no target.
func (s *Result) verdict() string {
	switch {
	case s.target() == "":
		return ""
	case s.OK:
		return "ok"
	default:
		return "short"
	}
}

// target formats the stage's target.
func (s *Result) target() string {
	var parts []string
	if s.Target > 0 {
		parts = append(parts, fmt.Sprintf("≥ %.2f", s.Target))
	}
	if s.AtLeast > 0 {
		parts = append(parts, "≥ "+thousands(s.AtLeast)+"/s")
	}
	for _, f := range s.Figures {
		if f.AtMost > 0 {
			parts = append(parts, fmt.Sprintf("%s ≤ %g %s", f.Name, f.AtMost, f.Unit))
		}
	}
	return strings.Join(parts, ", ")
}

// line formats the result as one line of progress.
func (s *Result) line() string {
	return fmt.Sprintf("baseline %s/s, ours %s/s %s, ratio %.2f %s", thousands(s.BaselinePerSecond), thousands(s.OursPerSecond), s.Unit, s.Ratio, s.verdict())
}

// Write prints the report as a table with details below it.
func (r *Report) Write(w io.Writer) error {
	head := fmt.Sprintf("\n%s; %d rounds of each side in turns, medians\n\n", r.Machine, r.Rounds)
	if r.Quick {
		head = fmt.Sprintf("\n%s; the short form: it checks that everything works, its figures are meaningless\n\n", r.Machine)
	}
	if r.Instances > 0 {
		head += fmt.Sprintf("Instances: %d, on a Redis Cluster and a NATS cluster of %d each. Targets are those of one server.\n\n", r.Instances, clusterNodes)
	}
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "STAGE\tBASELINE/s\tOURS/s\tRATIO\tSPREAD\tTARGET\t\tCPU µs BASELINE\tOURS")
	for i := range r.Stages {
		s := &r.Stages[i]
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%.2f\t%.2f–%.2f\t%s\t%s\t%.1f\t%.1f\n", s.Name, thousands(s.BaselinePerSecond), thousands(s.OursPerSecond),
			s.Ratio, s.RatioLow, s.RatioHigh, s.target(), s.verdict(), total(s.BaselineCPU), total(s.OursCPU))
	}
	if err := tw.Flush(); err != nil { // returns the first error of all writes
		return err
	}
	var b strings.Builder
	for i := range r.Stages {
		s := &r.Stages[i]
		fmt.Fprintf(&b, "\n%s: %s, beside %s. In %s.\n", s.Name, s.Ours, s.Baseline, s.Unit)
		for _, f := range s.Findings {
			fmt.Fprintf(&b, "  %s %s %s\n", f.Name, strconv.FormatFloat(f.Value, 'f', 1, 64), f.Unit)
		}
		fmt.Fprintf(&b, "  processor µs for each: %s; baseline: %s\n", spent(s.OursCPU), spent(s.BaselineCPU))
		if s.Profile != "" {
			fmt.Fprintf(&b, "  profile: go tool pprof %s\n", s.Profile)
		}
		if s.Remark != "" {
			fmt.Fprintf(&b, "  %s\n", s.Remark)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// spent lists processor times, the largest first.
func spent(cpu map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(cpu), func(a, b string) int {
		return cmp.Or(cmp.Compare(cpu[b], cpu[a]), strings.Compare(a, b))
	})
	if len(names) == 0 {
		return "too little to measure"
	}
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %.1f", name, cpu[name])
	}
	return strings.Join(parts, ", ")
}

// thousands formats a rate with separators: 45,000.
func thousands(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// total adds up the processes that share an operation's work.
func total(cpu map[string]float64) (sum float64) {
	for _, us := range cpu {
		sum += us
	}
	return sum
}
