package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/workshop/require"
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
		require.Equal(t, "what refuses on another route", take(2, 'a'), "")
		<-time.After(10*time.Second/5 + time.Millisecond)
		require.Equal(t, "what refuses after a refill, for a refused take was given back", take(1, 'b'), "")
	})
}

func TestTakeHereAllocatesNothing(t *testing.T) {
	l := limiter(t, nil)
	rule := ratelimit.Rule{Name: "here", Count: 1_000_000, Per: 10 * time.Second}
	require.Equal(t, "allocations", testing.AllocsPerRun(1000, func() {
		_ = l.TakeHere(ratelimit.Here{Rule: &rule, Subject: [16]byte{1}}, ratelimit.Here{Rule: &rule, Route: 2})
	}), 0)
}
