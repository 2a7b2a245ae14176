package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/httpx"
	"stampede/platform/watch/tally"
	"stampede/platform/workshop/require"
)

var opens = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// sample is a sale of 10 units of which four came back, one was sold again, one written off and one left.
func sample() *Report {
	counts := tally.Counts{
		"answers": {"queued": 11, "repeated": 1, "all-held": 50, "too-hot": 38}, "orders": {"created": 11, "paid": 8, "retaken": 1, "closed-timeout": 3, "closed-withdrawn": 1},
		"units": {"created": 11, "paid": 8, "closed-timeout": 3, "closed-withdrawn": 1}, "waits": {"5ms": 98, "200ms": 2}, "refunds": {"succeeded": 1},
	}
	took := 1.5
	return &Report{
		SessionID: 3, Name: "Night <sale>", OpensAt: opens, ClosesAt: opens.Add(time.Hour), MadeAt: opens.Add(2 * time.Hour), Funnel: counts, Step: 1,
		Items: []ItemOutcome{{ID: 5, Title: "Phone", Units: 10, SecondsToEmpty: &took, EmptiedAt: &opens, Sold: 8, Left: 12345, WrittenOff: 1, Counts: counts}},
		Curve: []CurveStep{{At: opens, Granted: 11, Refused: 70, Created: 11}, {At: opens.Add(time.Minute), Refused: 18, Paid: 9, Unpaid: 3}},
	}
}

func TestFinishComputesEndsLatencyAndAdvice(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Finish()
	orders := OrderOutcomes{Attempts: 100, Refused: 88, Created: 11, Paid: 9, Unpaid: 4, Refunds: 1, Returned: 4, SoldAgain: 1}
	require.Equal(t, "orders", r.Orders, orders)
	require.Equal(t, "latency", r.Latency, []LatencyBounds{{"wait", 100, 5, 200}})
	var codes []string
	for _, a := range r.Advice {
		codes = append(codes, a.Code)
		if a.En == "" || a.Zh == "" {
			t.Errorf("%s lacks a language", a.Code)
		}
	}
	require.Equal(t, "advice", strings.Join(codes, " "), "not-proved many-unpaid")
	r.Proof = &LatestProof{ID: "1", Status: "proved", EndedAt: httpx.Moment(opens.Add(90 * time.Minute))}
	r.Finish()
	require.Equal(t, "advice after a proof", r.Advice[0].Code, "many-unpaid")
	r.MadeAt, r.Proof = opens.Add(time.Minute), nil
	r.Finish()
	require.Equal(t, "advice while it runs", r.Advice[0].Code, "not-over")
	r.MadeAt, r.Proof = opens.Add(2*time.Hour), &LatestProof{ID: "1", Status: "proved", EndedAt: httpx.Moment(opens.Add(90 * time.Minute))}
	r.Items[0].EmptiedAt = nil // too-hot cost units only if some were left
	r.Finish()
	require.Equal(t, "advice with units left", r.Advice[0].Code, "lane-too-small")
	r.Funnel["answers"]["too-hot"], r.Funnel["answers"]["wait-your-turn"] = 0, 38
	r.Finish()
	require.Equal(t, "advice with units left and a line", r.Advice[0].Code, "rate-too-low")
	last := func() Advice { return r.Advice[len(r.Advice)-1] }
	require.Equal(t, "what was left", []any{last().Code, last().En[:1]}, []any{"stock-left", "1"})
	r.Items[0].Sold++ // the unit that was written off is not left
	r.Finish()
	require.Equal(t, "advice with none left", last().Code, "many-unpaid")
}

func TestPageIsOneFileWithChartsInBothLanguages(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Funnel["answers"]["sold-out"] = 1234567
	r.Finish()
	for lang, words := range map[httpx.Language][]string{
		httpx.English: {"Sale report", "Written off", "In line, with a unit", "Attempts per second"}, httpx.Chinese: {"场次报告", "报损", "抢到，等待生成订单", "每秒抢购请求"},
	} {
		raw, err := r.HTML(lang, time.FixedZone("CST", 8*3600))
		require.NoError(t, err)
		text := string(raw)
		for _, want := range append(words, "Night &lt;sale&gt;", "2026-11-11 20:00:00 CST", "1.50 s", "100.0 %", "12,345", "≤ 200 ms", ">20:00:30</text>", "1,234,567") {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		if strings.Count(text, "<svg") != 2 || strings.Contains(text, "<script") || strings.Contains(text, "http") {
			t.Error("the page has not two charts, or loads something")
		}
	}
	empty := &Report{}
	if empty.Finish(); len(empty.Advice) != 1 || empty.Advice[0].Code != "not-proved" {
		t.Errorf("advice about nothing: %+v", empty.Advice)
	}
	_, err := empty.HTML(httpx.English, time.UTC)
	require.NoError(t, err)
}

// A line rises from 0 and falls to it around what happened, of which the curve leaves
// the rest out; seconds side by side stay as they are, and one alone is seen.
func TestGapsAreDrawnAsNothing(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Date(2026, 11, 11, 12, 0, second, 0, time.UTC) }
	got := edged([]CurveStep{{At: at(0), Refused: 1}, {At: at(10), Refused: 9}, {At: at(11), Refused: 3}}, time.Second)
	want := []CurveStep{{At: at(-1)}, {At: at(0), Refused: 1}, {At: at(1)}, {At: at(9)}, {At: at(10), Refused: 9}, {At: at(11), Refused: 3}, {At: at(12)}}
	require.Equal(t, "the curve", got, want)
}

// Labels of both axes are round, few, and reach above the largest number.
func TestAxesHaveRoundLabels(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("IST", 5*3600+1800)
	for _, c := range []struct {
		from, until time.Time
		most        int64
		want, not   []string
	}{
		{opens.Add(-1500 * time.Millisecond), opens.Add(6 * time.Second), 2900, []string{">17:30:00<", ">17:30:06<", ">3,000<"}, []string{">17:30:01<", ">3,500<", ">4,000<"}},
		{opens, opens.Add(50 * time.Minute), 100, []string{">17:30<", ">17:50<", ">100<", ">80<"}, []string{">17:35<", ">120<"}},
		{opens, opens.Add(80 * time.Hour), 0, []string{">11-12 00:00<", ">11-14 00:00<", ">1<"}, []string{">11-12 12:00<", ">2<"}},
	} {
		l := line{name: "a & b", points: []at{{c.from, 0}, {c.until, c.most}}}
		svg := string(chart("both", []line{l}, moment{"Opened", opens.Add(time.Second)}, zone))
		for _, want := range append(c.want, "a &amp; b", ">Opened<") {
			if !strings.Contains(svg, want) {
				t.Errorf("%s for %d lacks %s:\n%s", c.until.Sub(c.from), c.most, want, svg)
			}
		}
		for _, not := range c.not {
			if strings.Contains(svg, not) {
				t.Errorf("%s for %d has %s:\n%s", c.until.Sub(c.from), c.most, not, svg)
			}
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -999: "-999"} {
		require.Equal(t, fmt.Sprint(n), grouped(n), want)
	}
}
