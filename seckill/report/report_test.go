package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/httpx"
	"stampede/platform/watch/tally"
)

var opens = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// sample is a sale of 10 units of which two came back and one was sold again.
func sample() *Report {
	counts := tally.Counts{
		"answers": {"queued": 11, "repeated": 1, "all-held": 50, "too-hot": 38}, "orders": {"created": 11, "paid": 8, "retaken": 1, "closed-timeout": 3},
		"units": {"created": 11, "paid": 8, "closed-timeout": 3}, "waits": {"5ms": 98, "200ms": 2}, "refunds": {"succeeded": 1},
	}
	took := 1.5
	return &Report{
		SessionID: 3, Name: "Night <sale>", OpensAt: opens, ClosesAt: opens.Add(time.Hour), MadeAt: opens.Add(2 * time.Hour), Funnel: counts, Step: 1,
		Items: []ItemOutcome{{ID: 5, Title: "Phone", Units: 10, SecondsToEmpty: &took, EmptiedAt: &opens, Sold: 9, Counts: counts}},
		Curve: []CurveStep{{At: opens, Granted: 11, Refused: 70, Created: 11}, {At: opens.Add(time.Minute), Refused: 18, Paid: 9, Unpaid: 3}},
	}
}

func TestFinishComputesEndsLatencyAndAdvice(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Finish()
	if want := (OrderOutcomes{Attempts: 100, Refused: 88, Created: 11, Paid: 9, Unpaid: 3, Refunds: 1, Returned: 3, SoldAgain: 1}); r.Orders != want {
		t.Errorf("orders %+v, want %+v", r.Orders, want)
	}
	if len(r.Latency) != 1 || r.Latency[0] != (LatencyBounds{"wait", 5, 200}) {
		t.Errorf("latency %+v", r.Latency)
	}
	var codes []string
	for _, a := range r.Advice {
		codes = append(codes, a.Code)
		if a.En == "" || a.Zh == "" {
			t.Errorf("%s lacks a language", a.Code)
		}
	}
	if got := strings.Join(codes, " "); got != "not-proved many-unpaid" {
		t.Errorf("advice %s", got)
	}
	r.Proof = &LatestProof{ID: "1", Status: "proved", EndedAt: httpx.Moment(opens.Add(90 * time.Minute))}
	if r.Finish(); r.Advice[0].Code != "many-unpaid" {
		t.Errorf("after a proof: %+v", r.Advice)
	}
	r.Items[0].EmptiedAt = nil // too-hot cost units only if some were left
	if r.Finish(); r.Advice[0].Code != "lane-too-small" {
		t.Errorf("with units left: %+v", r.Advice)
	}
}

func TestPageIsOneFileWithChartsInBothLanguages(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Finish()
	for lang, word := range map[httpx.Language]string{httpx.English: "Sale report", httpx.Chinese: "场次报告"} {
		raw, err := r.HTML(lang, time.FixedZone("CST", 8*3600))
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for _, want := range []string{word, "Night &lt;sale&gt;", "2026-11-11 20:00:00 CST", "1.5 s", "50.0 %", "38.0 %", "<polyline"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		if strings.Count(text, "<svg") != 2 || strings.Contains(text, "<script") || strings.Contains(text, "http") {
			t.Error("the page has not two charts, or loads something")
		}
	}
	empty := &Report{}
	if empty.Finish(); len(empty.Advice) != 1 {
		t.Errorf("advice about nothing: %+v", empty.Advice)
	}
	if _, err := empty.HTML(httpx.English, time.UTC); err != nil {
		t.Errorf("an empty report: %v", err)
	}
}

// A line falls to 0 in the seconds in which nothing happened, which the curve leaves
// out; seconds side by side stay as they are.
func TestGapsAreDrawnAsNothing(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Date(2026, 11, 11, 12, 0, second, 0, time.UTC) }
	got := edged([]CurveStep{{At: at(0), Refused: 1}, {At: at(10), Refused: 9}, {At: at(11), Refused: 3}}, time.Second)
	want := []CurveStep{{At: at(0), Refused: 1}, {At: at(1)}, {At: at(9)}, {At: at(10), Refused: 9}, {At: at(11), Refused: 3}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
