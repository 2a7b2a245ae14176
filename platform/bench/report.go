package bench

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what a run found.
type Report struct {
	Machine string    `json:"machine"`
	At      time.Time `json:"at"`
	Rounds  int       `json:"rounds"`
	// Quick says that the figures mean nothing: see [Config.Quick].
	Quick  bool     `json:"quick"`
	Stages []Result `json:"stages"`
}

// Result is what a run found about one stage; rates, processor times and figures
// are the medians of the rounds.
type Result struct {
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	Ours  string `json:"ours"`
	Floor string `json:"floor"`

	FloorPerSecond float64 `json:"floor_per_second"`
	OursPerSecond  float64 `json:"ours_per_second"`
	Ratio          float64 `json:"ratio"`
	RatioLow       float64 `json:"ratio_low"`
	RatioHigh      float64 `json:"ratio_high"`

	// Processor microseconds per operation, by process.
	FloorCPU map[string]float64 `json:"floor_cpu_us"`
	OursCPU  map[string]float64 `json:"ours_cpu_us"`

	Figures []Finding `json:"figures,omitempty"`
	Remark  string    `json:"remark,omitempty"`
	Profile string    `json:"profile,omitempty"`

	Target  float64 `json:"target_ratio,omitempty"`
	AtLeast float64 `json:"target_per_second,omitempty"`
	OK      bool    `json:"ok"`
}

// Finding is a figure with its value.
type Finding struct {
	Figure
	Value float64 `json:"value"`
	OK    bool    `json:"ok"`
}

func newReport(cfg Config) *Report {
	return &Report{
		Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version()),
		At:      time.Now().UTC(), Rounds: cfg.Rounds, Quick: cfg.Quick, Stages: []Result{},
	}
}

// OK reports whether every target was met.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Stages, func(s Result) bool { return !s.OK })
}

func (m *measurement) result() Result {
	st := m.stage
	res := Result{
		Name: st.Name, Unit: st.Unit, Ours: st.Ours, Floor: st.Floor, Remark: st.Remark, Profile: m.profile,
		Target: st.Target, AtLeast: st.AtLeast,
		FloorPerSecond: median(each(m.floor, func(r round) float64 { return r.perSecond })),
		OursPerSecond:  median(each(m.ours, func(r round) float64 { return r.perSecond })),
		FloorCPU:       cpuOf(m.floor), OursCPU: cpuOf(m.ours),
	}
	ratios := make([]float64, len(m.ours))
	for i := range ratios {
		ratios[i] = m.ours[i].perSecond / m.floor[i].perSecond
	}
	res.Ratio, res.RatioLow, res.RatioHigh = median(ratios), slices.Min(ratios), slices.Max(ratios)
	res.OK = res.Ratio >= st.Target && res.OursPerSecond >= st.AtLeast
	for _, f := range st.Figures {
		v := median(each(m.ours, func(r round) float64 { return r.figures[f.Name] }))
		found := Finding{Figure: f, Value: v, OK: f.AtMost == 0 || v <= f.AtMost}
		res.Figures = append(res.Figures, found)
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
			names[name] = true
		}
	}
	all := map[string]float64{}
	for name := range names {
		us := median(each(rounds, func(r round) float64 { return float64(r.cpu[name].Nanoseconds()) / 1000 }))
		if us > 0 {
			all[name] = us
		}
	}
	return all
}

func total(cpu map[string]float64) (sum float64) {
	for _, us := range cpu {
		sum += us
	}
	return sum
}

// verdict is what the table says beside the target, nothing where there is none.
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

// target is what was aimed at.
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

// line is the result in one line, for the progress.
func (s *Result) line() string {
	return fmt.Sprintf("floor %s/s, ours %s/s %s, ratio %.2f %s", thousands(s.FloorPerSecond), thousands(s.OursPerSecond), s.Unit, s.Ratio, s.verdict())
}

// Write prints the report as a table with what is worth knowing below it.
func (r *Report) Write(w io.Writer) error {
	head := fmt.Sprintf("\n%s; %d rounds of each side in turns, medians\n\n", r.Machine, r.Rounds)
	if r.Quick {
		head = fmt.Sprintf("\n%s; the short form: it shows that everything works, its figures mean nothing\n\n", r.Machine)
	}
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "STAGE\tFLOOR/s\tOURS/s\tRATIO\tSPREAD\tTARGET\t\tCPU µs FLOOR\tOURS")
	for i := range r.Stages {
		s := &r.Stages[i]
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%.2f\t%.2f–%.2f\t%s\t%s\t%.1f\t%.1f\n", s.Name, thousands(s.FloorPerSecond), thousands(s.OursPerSecond),
			s.Ratio, s.RatioLow, s.RatioHigh, s.target(), s.verdict(), total(s.FloorCPU), total(s.OursCPU))
	}
	if err := tw.Flush(); err != nil { // carries the first error of all the writing
		return err
	}
	var b strings.Builder
	for i := range r.Stages {
		s := &r.Stages[i]
		fmt.Fprintf(&b, "\n%s: %s, beside %s. In %s.\n", s.Name, s.Ours, s.Floor, s.Unit)
		for _, f := range s.Figures {
			fmt.Fprintf(&b, "  %s %s %s\n", f.Name, strconv.FormatFloat(f.Value, 'f', 1, 64), f.Unit)
		}
		fmt.Fprintf(&b, "  processor µs for each: %s; floor: %s\n", spent(s.OursCPU), spent(s.FloorCPU))
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
		switch {
		case cpu[a] > cpu[b]:
			return -1
		case cpu[a] < cpu[b]:
			return 1
		default:
			return strings.Compare(a, b)
		}
	})
	if len(names) == 0 {
		return "too little to tell"
	}
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %.1f", name, cpu[name])
	}
	return strings.Join(parts, ", ")
}

// thousands writes a rate as people read it: 45,000.
func thousands(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
