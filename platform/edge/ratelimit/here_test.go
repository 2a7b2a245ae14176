package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/ratelimit"
)

func TestTakeHereIsAllOrNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, nil)
		user, total := ratelimit.Rule{Name: "here-user", Count: 3, Per: 10 * time.Second}, ratelimit.Rule{Name: "here-total", Count: 5, Per: 10 * time.Second}
		off := ratelimit.Rule{Name: "here-off"}
		take := func(route uint32, subject byte) string {
			err := l.TakeHere(
				ratelimit.Here{Rule: &off, Route: route},
				ratelimit.Here{Rule: &user, Route: route, Subject: [16]byte{1, subject}},
				ratelimit.Here{Rule: &total, Route: route})
			if err == nil {
				return ""
			}
			rule, _ := fault.From(err).Fields["rule"].(string)
			return rule
		}
		for i, want := range []string{"", "", "", "here-user", "here-user"} {
			if got := take(1, 'a'); got != want {
				t.Errorf("take %d of a user: refused by %q, want %q", i, got, want)
			}
		}
		for i, want := range []string{"", "", "here-total", "here-total"} {
			if got := take(1, 'b'); got != want {
				t.Errorf("take %d of another: refused by %q, want %q", i, got, want)
			}
		}
		if got := take(2, 'a'); got != "" {
			t.Errorf("on another route refused by %q", got)
		}
		<-time.After(10*time.Second/5 + time.Millisecond)
		if got := take(1, 'b'); got != "" {
			t.Errorf("refused by %q after a refill: a refused take was not given back", got)
		}
	})
}

func TestTakeHereAllocatesNothing(t *testing.T) {
	l := limiter(t, nil)
	rule := ratelimit.Rule{Name: "here", Count: 1_000_000, Per: 10 * time.Second}
	if n := testing.AllocsPerRun(1000, func() {
		_ = l.TakeHere(ratelimit.Here{Rule: &rule, Subject: [16]byte{1}}, ratelimit.Here{Rule: &rule, Route: 2})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
