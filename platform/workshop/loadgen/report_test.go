package loadgen

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

func TestTheSuggestedConcurrencyIsLittlesLaw(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perSecond float64
		p99       float64 // ms
		count     int64
		want      int
	}{
		{20_000, 12.5, 1000, 250}, {33_333, 10, 1000, 334}, {100, 2, 50, leastConcurrent}, {0, 0, 0, 0},
	} {
		require.Equal(t, fmt.Sprintf("%g per second of %g ms", c.perSecond, c.p99), underWay(c.perSecond, Latency{Count: c.count, P99: c.p99}), c.want)
	}
	var out strings.Builder
	require.NoError(t, (&Report{MaxConcurrent: 250, Latency: map[string]Latency{"path": {Count: 1, P99: 12.5}}}).Write(&out))
	require.Contains(t, "the report", out.String(), "suggested --max-concurrent: 250")
}

// TestLostServerIsNotABrokenPromise checks for one line that names some of the
// numbers, and what to do.
func TestLostServerIsNotABrokenPromise(t *testing.T) {
	t.Parallel()
	cfg := playOf(open(t, &shop{units: 10, leaves: true}))
	cfg.Shoppers, cfg.Connections, cfg.Settle, cfg.followed = 10, 2, 200*time.Millisecond, 3 // nor does it stop the rush
	rep, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	if rep.NotKnown == nil || rep.NotKnown.Count != 10 || len(rep.NotKnown.First) != 3 || len(rep.Violations) > 0 || rep.Outcomes["not known"] != 10 {
		t.Fatalf("%+v, not known %+v", rep, rep.NotKnown)
	}
	var out strings.Builder
	require.NoError(t, rep.Write(&out))
	want := fmt.Sprintf("NOT KNOWN: the server went away before it reported the outcome of orders %s and 7 more: start it again, then run stampede verify",
		strings.Join(rep.NotKnown.First, ", "))
	if strings.Count(out.String(), "NOT KNOWN") != 1 || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "visible") {
		t.Errorf("%q is missing, or there is more than that:\n%s", want, out.String())
	}
}

// TestBrokenPromiseIsReportedOnce checks that the line names some of the orders.
func TestBrokenPromiseIsReportedOnce(t *testing.T) {
	t.Parallel()
	rep := &Report{Violations: []Violation{{"a", "rose"}, {"b", "rose"}, {"c", "fell"}, {"d", "rose"}, {"e", "rose"}}}
	var out strings.Builder
	require.NoError(t, rep.Write(&out))
	const want = "BROKEN PROMISE, 4 times: rose: orders a, b, d and 1 more\nBROKEN PROMISE, 1 times: fell: order c\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("want %q at the end of\n%s", want, out.String())
	}
}

// TestAttemptIsSentUntilAnAddressHasMoved loses more sends than an attempt has.
func TestAttemptIsSentUntilAnAddressHasMoved(t *testing.T) {
	t.Parallel()
	cfg := playOf(open(t, &shop{units: 1, aborts: 2*attemptSends + 1})) // a link sends twice on a kept connection
	cfg.Shoppers = 1
	rep, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, "answers", rep.Answers, map[string]int64{"queued": 1})
}

// An attempt that is not taken yet, because the item is being loaded or the shopper is in
// line, is sent again after the time that the answer names, under the same number, and
// counted.
func TestAttemptIsSentAgainLater(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"fenced", "wait-your-turn"} {
		s := &shop{units: 3, later: code}
		cfg := playOf(open(t, s))
		cfg.Shoppers, cfg.Connections = 6, 2
		rep, err := Run(t.Context(), cfg)
		require.NoError(t, err)
		if rep.Answers["queued"] != 3 || rep.Answers["all-held"] != 3 || len(rep.Answers) != 2 || rep.Troubles["an attempt was answered "+code+" and repeated"] != 6 {
			t.Errorf("answers %v, troubles %v", rep.Answers, rep.Troubles)
		}
		require.Equal(t, "numbers rushed", len(s.rushed), 6)
	}
}

// TestAnswersAreCountedByCode: 503 unknown is an answer, and the repeats are
// reported, because the server counts each.
func TestAnswersAreCountedByCode(t *testing.T) {
	t.Parallel()
	cfg := playOf(open(t, &shop{units: 5, unsure: true}))
	cfg.Shoppers, cfg.Connections, cfg.Settle = 4, 2, 200*time.Millisecond
	rep, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	if rep.Answers["unknown"] != 4 || len(rep.Answers) != 1 || rep.Troubles["an attempt was answered unknown and repeated"] != 8 {
		t.Errorf("answers %v, troubles %v", rep.Answers, rep.Troubles)
	}
}
