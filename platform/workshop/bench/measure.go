package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// Config says how to measure.
type Config struct {
	// Rounds is how many times each side runs, 1 or more.
	Rounds int
	// Round is how long one run of a side should take: long compared with the
	// hundredth of a second in which processor time is counted, short compared
	// with the lifetime of paths.
	Round time.Duration
	// Quick runs each side once, with half the few operations of the warm-up: it
	// checks that everything works and measures nothing.
	Quick bool
	// ProfileDir receives a processor profile of each stage's own side, taken
	// in one more round that is not part of the result; empty means none.
	ProfileDir string
	// Progress receives a line per step; required.
	Progress io.Writer
}

// Run measures the stages one after the other. A failed stage ends the run with
// an error and the results of the stages before it.
func Run(ctx context.Context, rig *Rig, stages []Stage, cfg Config) (*Report, error) {
	report := &Report{
		Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version()),
		Cores:   runtime.GOMAXPROCS(0),
		At:      time.Now().UTC(), Rounds: cfg.Rounds, Quick: cfg.Quick, Instances: rig.instances, Stages: []Result{},
	}
	for i := range stages {
		st := &stages[i]
		began := time.Now()
		_, _ = fmt.Fprintf(cfg.Progress, "%-9s %s, beside %s\n", st.Name, st.Ours, st.Baseline)
		m := &measurement{rig: rig, stage: st, cfg: cfg}
		err := m.run(ctx)
		if err != nil {
			return report, fmt.Errorf("bench: %s: %w", st.Name, err)
		}
		res := m.result()
		report.Stages = append(report.Stages, res)
		_, _ = fmt.Fprintf(cfg.Progress, "%-9s %s (%.0f s)\n", "", res.line(), time.Since(began).Seconds())
	}
	return report, nil
}

// round is the result of one run of a side.
type round struct {
	perSecond float64
	cpu       usage // per operation, also of this process, which plays the clients
	figures   map[string]float64
}

// measurement is a running stage.
type measurement struct {
	rig            *Rig
	stage          *Stage
	cfg            Config
	baseline, ours []round
	profile        string
}

// run opens the stage, warms both sides up and measures them alternately.
func (m *measurement) run(ctx context.Context) (err error) {
	baseline, ours, err := m.stage.Open(ctx, m.rig)
	if err != nil {
		return err
	}
	baselineSize, err := m.warm(ctx, baseline)
	if err != nil {
		return fmt.Errorf("warm the baseline up: %w", err)
	}
	oursSize, err := m.warm(ctx, ours)
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	for range m.cfg.Rounds {
		f, err := m.rig.measure(ctx, baseline, baselineSize)
		if err != nil {
			return fmt.Errorf("run the baseline: %w", err)
		}
		o, err := m.rig.measure(ctx, ours, oursSize)
		if err != nil {
			return err
		}
		m.baseline, m.ours = append(m.baseline, f), append(m.ours, o)
	}
	if m.cfg.ProfileDir != "" {
		if m.profile, err = m.takeProfile(ctx, ours, oursSize); err != nil {
			return fmt.Errorf("take a profile: %w", err)
		}
	}
	return nil
}

// warm runs a side once, which opens connections, fills caches and measures its
// speed, and returns how many operations fill a round.
func (m *measurement) warm(ctx context.Context, side Side) (n int, err error) {
	if m.cfg.Quick {
		return m.count((m.stage.Probe + 1) / 2), nil
	}
	n = m.count(m.stage.Probe)
	first, err := m.rig.measure(ctx, side, n)
	return m.count(max(n, int(first.perSecond*m.cfg.Round.Seconds()))), err
}

// count clamps a number of operations to the stage's bounds.
func (m *measurement) count(n int) int {
	if m.stage.Most > 0 {
		n = min(n, m.stage.Most)
	}
	return n
}

// takeProfile runs a side once more and writes the processor profile of the
// server, through its ops listener.
func (m *measurement) takeProfile(ctx context.Context, side Side, n int) (name string, err error) {
	if err := os.MkdirAll(m.cfg.ProfileDir, 0o750); err != nil {
		return "", err
	}
	name = filepath.Join(m.cfg.ProfileDir, m.stage.Name+".pprof")
	// It takes as long as a round, so that it ends with the work or shortly after;
	// pprof takes whole seconds only.
	address := m.rig.server.OpsURL + "/debug/pprof/profile?seconds=" + strconv.Itoa(int(math.Ceil(m.cfg.Round.Seconds())))
	work := side.Work
	side.Work = func(ctx context.Context, n int) (map[string]float64, error) {
		fetched := make(chan error, 1)
		go func() {
			_, profile, err := ask(ctx, http.MethodGet, address, "", nil, http.StatusOK)
			if err == nil {
				err = os.WriteFile(name, profile, 0o600)
			}
			fetched <- err
		}()
		figures, err := work(ctx, n)
		return figures, errors.Join(err, <-fetched)
	}
	_, err = m.rig.measure(ctx, side, n)
	return name, err
}

// measure runs one round of one side. Prepare and Check are outside the
// measured time.
func (r *Rig) measure(ctx context.Context, side Side, n int) (round, error) {
	if side.Prepare != nil {
		if err := side.Prepare(ctx, n); err != nil {
			return round{}, err
		}
	}
	before, began := r.usage(), time.Now()
	figures, err := side.Work(ctx, n)
	took := time.Since(began)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return round{}, err
	}
	used := r.usage().since(before)
	if side.Check != nil {
		if err := side.Check(ctx, n); err != nil {
			return round{}, err
		}
	}
	for name := range used {
		used[name] /= time.Duration(n)
	}
	return round{perSecond: float64(n) / took.Seconds(), cpu: used, figures: figures}, nil
}

// median of an odd number of values is one of them; of none it is 0.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
