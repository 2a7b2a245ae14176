package bench

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Report is the result of a run.
type Report struct {
	Machine string    `json:"machine"`
	At      time.Time `json:"at"`
	Rounds  int       `json:"rounds"`
	// Quick means that the figures are meaningless, see [Config.Quick].
	Quick  bool     `json:"quick"`
	Stages []Result `json:"stages"`
}

// Result is a run's result for one stage; rates, processor times and figures
// are the medians of the rounds.
type Result struct {
	Name     string `json:"name"`
	Unit     string `json:"unit"`
	Ours     string `json:"ours"`
	Baseline string `json:"baseline"`

	BaselinePerSecond float64 `json:"baseline_per_second"`
	OursPerSecond     float64 `json:"ours_per_second"`
	Ratio             float64 `json:"ratio"`
	RatioLow          float64 `json:"ratio_low"`
	RatioHigh         float64 `json:"ratio_high"`

	// Processor microseconds per operation, by process.
	BaselineCPU map[string]float64 `json:"baseline_cpu_us"`
	OursCPU     map[string]float64 `json:"ours_cpu_us"`

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

// result reduces the rounds to medians. The ratio is the median of the rounds'
// ratios, not the ratio of the medians: each compares two runs under the same
// conditions.
func (m *measurement) result() Result {
	st := m.stage
	res := Result{
		Name: st.Name, Unit: st.Unit, Ours: st.Ours, Baseline: st.Baseline, Remark: st.Remark, Profile: m.profile,
		Target: st.Target, AtLeast: st.AtLeast,
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
