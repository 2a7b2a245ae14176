package loadgen

import (
	"strings"
	"testing"
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
		if got := underWay(c.perSecond, Latency{Count: c.count, P99: c.p99}); got != c.want {
			t.Errorf("%g a second of %g ms: %d, want %d", c.perSecond, c.p99, got, c.want)
		}
	}
	var out strings.Builder
	if err := (&Report{MaxConcurrent: 250, Latency: map[string]Latency{"path": {Count: 1, P99: 12.5}}}).Write(&out); err != nil {
		t.Fatal(err)
	}
	if want := "suggested --max-concurrent: 250"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing:\n%s", want, out.String())
	}
}

func TestACrowdMeasuresItsPaths(t *testing.T) {
	t.Parallel()
	s := &shop{units: 7, hot: map[string]bool{}}
	c := NewCrowd(CrowdConfig{BaseURL: open(t, s), Items: []int64{1}, Shoppers: 20, FirstUser: 100, Connections: 4, Token: mint})
	defer c.Close()
	c.FetchPaths(t.Context())
	if c.asked.took.Count != 20 || c.asked.took.P99 <= 0 || c.asked.perSecond <= 0 {
		t.Errorf("%+v, want 20 paths with their times", c.asked)
	}
}
