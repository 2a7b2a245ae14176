package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/workshop/require"
)

// sides returns a stage whose sides take the given time per operation, and
// records the order in which they ran and with how many operations.
type sides struct {
	order []string
	sizes map[string][]int
}

func (s *sides) stage(baseline, ours time.Duration) Stage {
	side := func(name string, each time.Duration) Side {
		return Side{Work: func(ctx context.Context, n int) (map[string]float64, error) {
			s.order = append(s.order, name)
			s.sizes[name] = append(s.sizes[name], n)
			return map[string]float64{"p99": 30}, app.Sleep(ctx, time.Duration(n)*each)
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

// runFake measures the stage by a clock that its sides advance.
func runFake(t *testing.T, st Stage, cfg Config) (report *Report) {
	t.Helper()
	var progress bytes.Buffer
	cfg.Progress = &progress
	synctest.Test(t, func(t *testing.T) {
		var err error
		report, err = Run(t.Context(), noStack(), []Stage{st}, cfg)
		require.NoError(t, err)
	})
	require.Contains(t, "the progress", progress.String(), "fake")
	return report
}

func TestSidesAlternateAndFillTheirRounds(t *testing.T) {
	t.Parallel()
	s := &sides{sizes: map[string][]int{}}
	report := runFake(t, s.stage(time.Millisecond, 4*time.Millisecond), Config{Rounds: 3, Round: time.Second})
	require.Equal(t, "the order of the sides", strings.Join(s.order, " "), "baseline ours baseline ours baseline ours baseline ours")
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
		require.Equal(t, name+": ok", report.OK(), c.ok)
		var out bytes.Buffer
		require.NoError(t, report.Write(&out))
		verdict := map[bool]string{true: "ok", false: "short"}[c.ok]
		require.Contains(t, name, out.String(), " "+verdict+" ", "1.00–1.00")
		if raw, err := json.Marshal(report); err != nil || !bytes.Contains(raw, []byte(`"ratio":1`)) {
			t.Errorf("%s: JSON %s, %v", name, raw, err)
		}
	}
}

func TestFailureNamesItsStage(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	st := Stage{Name: "fake", Probe: 1, Open: func(context.Context, *Rig) (Side, Side, error) {
		fine := Side{Work: func(context.Context, int) (map[string]float64, error) { return nil, nil }}
		bad := Side{Prepare: func(context.Context, int) error { return broken }}
		return fine, bad, nil
	}}
	if _, err := Run(t.Context(), noStack(), []Stage{st}, Config{Rounds: 1, Progress: io.Discard}); !errors.Is(err, broken) || !strings.Contains(err.Error(), "fake") {
		t.Errorf("error %v", err)
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
	_, err := Run(t.Context(), noStack(), []Stage{st}, Config{Rounds: 1, Round: time.Second, Progress: io.Discard})
	require.ErrorIs(t, err, missing)
}

func TestRatesAreFormattedForPeople(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 999.4: "999", 1000: "1,000", 45678: "45,678", 1234567: "1,234,567"} {
		require.Equal(t, fmt.Sprint(v), thousands(v), want)
	}
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		require.Equal(t, fmt.Sprint("the median of ", c.values), median(c.values), c.want)
	}
}

func TestMillionMarksMissedTargets(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*MillionReport){
		"":                        func(*MillionReport) {},
		"SHORT 9999 units":        func(m *MillionReport) { m.Granted-- },
		"SHORT 10000 units":       func(m *MillionReport) { m.BooksProved = false },
		"SHORT all attempts":      func(m *MillionReport) { m.VisibleAfter = 27 },
		"SHORT peak memory of th": func(m *MillionReport) { m.PeakMiB = 301 },
	} {
		m := &MillionReport{
			Shoppers: 1_000_000, Units: 10_000, Granted: 10_000, Orders: 10_000, BooksProved: true,
			Seconds: 20, VisibleAfter: 2, PeakMiB: 210,
		}
		change(m)
		var b strings.Builder
		require.NoError(t, m.Write(&b))
		if short := strings.Contains(b.String(), "SHORT"); short != (want != "") || !strings.Contains(b.String(), want) || m.OK() != (want == "") {
			t.Errorf("want %q:\n%s", want, b.String())
		}
	}
}

// TestUsageIncludesGrandchildren burns processor time in a child and in its child.
func TestUsageIncludesGrandchildren(t *testing.T) {
	t.Parallel()
	// The context would end only the first of the two; the process group contains both.
	cmd := exec.Command("sh", "-c", "(while :; do :; done) & while :; do :; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
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
	if peak := peakMiB(cmd.Process.Pid); peak <= 0 {
		t.Errorf("at most %v MiB of memory", peak)
	}
}
