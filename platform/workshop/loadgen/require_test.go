package loadgen

import (
	"math"
	"strings"
	"testing"
)

// measured is a report of 1,000 attempts.
func measured() *Report {
	return &Report{
		PerSecond: 1234.5, AllVisible: 1.5, Outcomes: map[string]int64{"paid": 240},
		Answers: map[string]int64{"queued": 300, "all-held": 696, answerNone: 1, pathRefused + "unavailable": 1, pathRefused + "overloaded": 1, "http-502": 1},
		Latency: map[string]Latency{"refusal": {Count: 698, P50: 9, P90: 10, P99: 80, Max: 90}, "grant": {Count: 300, P50: 5, P90: 60, P99: 84.095, Max: 85}, "push": {}},
	}
}

func TestRequirementsAreJudged(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"p99<200ms":        "ok      p99 84.095 ms < 200 ms",
		"p50 <= 9ms":       "ok      p50 9 ms <= 9 ms",
		"max<85ms":         "MISSED  max 90 ms, required < 85 ms",
		"grant.max<85ms":   "MISSED  grant.max 85 ms, required < 85 ms",
		"refusal.p90=10ms": "ok      refusal.p90 10 ms = 10 ms",
		"push.p99<1s":      "MISSED  push.p99 not measured, required < 1000 ms",
		"errors<0.4%":      "MISSED  errors 0.4 %, required < 0.4 %",
		"errors<=0.004":    "ok      errors 0.4 % <= 0.4 %",
		"granted=300":      "ok      granted 300 = 300",
		"granted>300":      "MISSED  granted 300, required > 300",
		"paid>=240":        "ok      paid 240 >= 240",
		"rate>1000/s":      "ok      rate 1234.5/s > 1000/s",
		"visible<1s":       "MISSED  visible 1500 ms, required < 1000 ms",
	} {
		var r Requirement
		err := r.UnmarshalText([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var line strings.Builder
		v := r.Judge(measured())
		if err := v.Write(&line); err != nil || line.String() != want+"\n" || v.Met != strings.HasPrefix(want, "ok") {
			t.Errorf("%s: %q, %v", text, line.String(), err)
		}
	}
}

// FuzzRequirement checks that a requirement is either refused, with what to write
// instead, or has a bound that a figure can be compared with.
func FuzzRequirement(f *testing.F) {
	for _, text := range []string{"p99<200ms", "errors<0.1%", "granted=300", "rate>=1e3/s", "p95<1s", "p99", "p99<", "p99<200", "errors<NaN%", "errors<101%", "granted=-1", "rate>Inf", "grant.p99>==1ms", "order visible.p99<1s", "=", "."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r Requirement
		err := r.UnmarshalText([]byte(text))
		if err != nil {
			if !strings.Contains(err.Error(), "such as") && !strings.Contains(err.Error(), "errors<0.1%") {
				t.Fatalf("%q: the error does not say what to write: %v", text, err)
			}
			return
		}
		if r.bound < 0 || math.IsNaN(r.bound) || math.IsInf(r.bound, 0) {
			t.Fatalf("%q: bound %v", text, r.bound)
		}
		if v := r.Judge(measured()); !strings.HasPrefix(strings.ReplaceAll(text, " ", ""), r.name+r.operator) || !strings.HasPrefix(v.Required, r.name+" "+r.operator+" ") {
			t.Fatalf("%q is taken as %q", text, v.Required)
		}
	})
}

func TestBadRequirementsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "p99", "p95<1s", "p99<200", "p99<-1ms", "errors<101%", "errors<NaN", "granted=1.5", "rate>Inf", "queue.p99<1s", "grant.p42<1s", "p99>==1ms"} {
		var r Requirement
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken as %+v", text, r)
		}
	}
}
