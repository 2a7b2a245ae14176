package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sides returns a stage whose sides take the given time per operation, and
// records the order in which they ran and with how many operations.
type sides struct {
	order []string
	sizes map[string][]int
}

func (s *sides) stage(baseline, ours time.Duration) Stage {
	side := func(name string, each time.Duration) Side {
		return Side{Work: func(_ context.Context, n int) (Sample, error) {
			s.order = append(s.order, name)
			s.sizes[name] = append(s.sizes[name], n)
			return Sample{Took: time.Duration(n) * each, Figures: map[string]float64{"p99": 30}}, nil
		}}
	}
	return Stage{
		Name: "fake", Unit: "things", Ours: "ours", Baseline: "theirs", Probe: 8, Target: 0.5,
		Open: func(context.Context, *Rig) (Side, Side, error) {
			return side("baseline", baseline), side("ours", ours), nil
		},
	}
}

// noStack is a rig for stages that need no stores.
func noStack() *Rig { return &Rig{names: map[int]string{}} }

func runFake(t *testing.T, st Stage, cfg Config) *Report {
	t.Helper()
	var progress bytes.Buffer
	cfg.Progress = &progress
	report, err := Run(t.Context(), noStack(), []Stage{st}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(progress.String(), "fake") {
		t.Errorf("no progress was shown: %q", progress.String())
	}
	return report
}

func TestSidesAlternateAndFillTheirRounds(t *testing.T) {
	t.Parallel()
	s := &sides{sizes: map[string][]int{}}
	report := runFake(t, s.stage(time.Millisecond, 4*time.Millisecond), Config{Rounds: 3, Round: time.Second})
	if got, want := strings.Join(s.order, " "), "baseline ours baseline ours baseline ours baseline ours"; got != want {
		t.Errorf("the sides ran %s, want %s", got, want)
	}
	// A round runs as many operations as fit into its duration.
	if f, o := s.sizes["baseline"], s.sizes["ours"]; f[0] != 8 || f[3] != 1000 || o[0] != 8 || o[3] != 250 {
		t.Errorf("sizes %v, want 8 to warm up and then 1000 and 250", s.sizes)
	}
	res := report.Stages[0]
	if res.Ratio < 0.249 || res.Ratio > 0.251 || res.OK || report.OK() {
		t.Errorf("ratio %v, ok %v; want 0.25, which is short of 0.5", res.Ratio, res.OK)
	}
}

func TestEveryBoundCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Stage)
		ok     bool
	}{
		"ratio met":       {func(*Stage) {}, true},
		"rate missed":     {func(st *Stage) { st.AtLeast = 2000 }, false},
		"figure within":   {func(st *Stage) { st.Figures = []Figure{{Name: "p99", Unit: "ms", AtMost: 30}} }, true},
		"figure above":    {func(st *Stage) { st.Figures = []Figure{{Name: "p99", Unit: "ms", AtMost: 25}} }, false},
		"figure no bound": {func(st *Stage) { st.Figures = []Figure{{Name: "p99", Unit: "ms"}} }, true},
	} {
		s := &sides{sizes: map[string][]int{}}
		st := s.stage(time.Millisecond, time.Millisecond)
		c.change(&st)
		report := runFake(t, st, Config{Rounds: 1, Round: time.Second})
		if report.OK() != c.ok {
			t.Errorf("%s: ok %v, want %v", name, report.OK(), c.ok)
		}
		var out bytes.Buffer
		if err := report.Write(&out); err != nil {
			t.Fatal(err)
		}
		verdict := map[bool]string{true: "ok", false: "short"}[c.ok]
		if !strings.Contains(out.String(), " "+verdict+" ") || !strings.Contains(out.String(), "1.00–1.00") {
			t.Errorf("%s: %q is missing from the table:\n%s", name, verdict, out.String())
		}
		if raw, err := json.Marshal(report); err != nil || !bytes.Contains(raw, []byte(`"ratio":1`)) {
			t.Errorf("%s: JSON %s, %v", name, raw, err)
		}
	}
}

func TestFailureNamesItsStageAndClosesIt(t *testing.T) {
	t.Parallel()
	broken, closed := errors.New("broken"), false
	st := Stage{Name: "fake", Probe: 1, Open: func(_ context.Context, r *Rig) (Side, Side, error) {
		r.afterStage(func(context.Context) error { closed = true; return nil })
		fine := Side{Work: func(context.Context, int) (Sample, error) { return Sample{}, nil }}
		bad := Side{Prepare: func(context.Context, int) error { return broken }}
		return fine, bad, nil
	}}
	if _, err := Run(t.Context(), noStack(), []Stage{st}, Config{Rounds: 1, Progress: io.Discard}); !errors.Is(err, broken) || !strings.Contains(err.Error(), "fake") || !closed {
		t.Errorf("error %v, closed %v", err, closed)
	}
}

func TestFailedCheckEndsTheRun(t *testing.T) {
	t.Parallel()
	missing := errors.New("an order is missing")
	s := &sides{sizes: map[string][]int{}}
	st := s.stage(time.Millisecond, time.Millisecond)
	open := st.Open
	st.Open = func(ctx context.Context, r *Rig) (Side, Side, error) {
		baseline, ours, err := open(ctx, r)
		ours.Check = func(context.Context, int) error { return missing }
		return baseline, ours, err
	}
	if _, err := Run(t.Context(), noStack(), []Stage{st}, Config{Rounds: 1, Round: time.Second, Progress: io.Discard}); !errors.Is(err, missing) {
		t.Errorf("error %v", err)
	}
}

func TestRatesAreFormattedForPeople(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 999.4: "999", 1000: "1,000", 45678: "45,678", 1234567: "1,234,567"} {
		if got := thousands(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

// drawn is a report like that of a run.
func drawn() *ScaleReport {
	r := &ScaleReport{Million: &MillionReport{
		Shoppers: 1_000_000, Units: 10_000, Granted: 10_000, Orders: 10_000, BooksProved: true,
		Seconds: 20, VisibleAfter: 2, Refusals: 19, PeakMiB: 210,
	}}
	for i, n := range []int{1_000, 10_000, 100_000} {
		r.Shoppers = append(r.Shoppers, ScalePoint{Shoppers: n, Items: 1, Units: n / 100, Sales: 1, Attempts: n, Server: 20, All: 25 - float64(i)})
		r.Items = append(r.Items, ScalePoint{Shoppers: 100_000, Items: n / 1000, Units: 1000, Sales: 1, Attempts: n, Server: 20, All: 62})
	}
	return r
}

func TestScaleReportMarksMissedTargets(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*MillionReport){
		"":                        func(*MillionReport) {},
		"SHORT 9999 units":        func(m *MillionReport) { m.Granted-- },
		"SHORT 10000 units":       func(m *MillionReport) { m.BooksProved = false },
		"SHORT every winner":      func(m *MillionReport) { m.VisibleAfter = 25 },
		"SHORT peak memory of th": func(m *MillionReport) { m.PeakMiB = 301 },
	} {
		r := drawn()
		change(r.Million)
		var b strings.Builder
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		if short := strings.Contains(b.String(), "SHORT"); short != (want != "") || !strings.Contains(b.String(), want) || r.Million.OK() != (want == "") {
			t.Errorf("want %q:\n%s", want, b.String())
		}
	}
}

func TestSaleHasUnitsForEveryItem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ shoppers, items, units int }{
		{1_000, 1, 10}, {1_000_000, 1, 10_000}, {100_000, 1_000, 1_000}, {1_000, 100, 100}, {10, 1, 1},
	} {
		if got := (sale{shoppers: c.shoppers, items: c.items}).units(); got != c.units {
			t.Errorf("%d shoppers, %d items: %d units, want %d", c.shoppers, c.items, got, c.units)
		}
	}
}

// TestUsageIncludesGrandchildren burns processor time in a child and in its child.
func TestUsageIncludesGrandchildren(t *testing.T) {
	t.Parallel()
	// The context would end only the first of the two; the process group contains both.
	cmd := exec.Command("sh", "-c", "(while :; do :; done) & while :; do :; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the error only says that it was killed
	})
	rig := noStack()
	rig.names[cmd.Process.Pid] = "spinner"
	before := rig.usage()
	deadline := time.Now().Add(30 * time.Second)
	for rig.usage().since(before)["spinner"] < 200*time.Millisecond {
		if time.Now().After(deadline) {
			t.Fatalf("used %v", rig.usage().since(before))
		}
	}
	if now, peak := residentKiB(cmd.Process.Pid); now <= 0 || peak < now {
		t.Errorf("memory %d KiB, at most %d", now, peak)
	}
}
