package cli

import (
	"errors"
	"strings"
	"testing"

	"stampede/platform/workshop/loadgen"
)

func TestRushFailsOnAMissedRequirement(t *testing.T) {
	t.Parallel()
	report := &loadgen.Report{Answers: map[string]int64{"queued": 3}, Latency: map[string]loadgen.Latency{"grant": {Count: 3, P99: 84}}}
	for _, c := range []struct {
		require []string
		json    bool
		out     string
		err     error
	}{
		{nil, false, "", nil},
		{[]string{"p99<200ms", "granted=3"}, false, "ok      p99 84 ms < 200 ms\nok      granted 3 = 3\n", nil},
		{[]string{"p99<50ms", "granted=3"}, false, "MISSED  p99 84 ms, required < 50 ms\nok      granted 3 = 3\n", errMissed},
		{[]string{"p99<50ms"}, true, `"requirements": [
    {
      "required": "p99 < 50 ms",
      "found": "84 ms",
      "met": false
    }
  ]`, errMissed},
	} {
		var out strings.Builder
		err := (&Rush{Require: c.require, JSON: c.json, NoVerify: true}).finish(t.Context(), &out, report, Stores{}, nil)
		if !errors.Is(err, c.err) || !strings.Contains(out.String(), c.out) {
			t.Errorf("%v: %v, printed\n%s", c.require, err, out.String())
		}
	}
	for _, bad := range []string{"p99<200", "p99<200ms,quickly>1"} {
		code, _, errs := carryOut(t.Context(), nil, "rush", "--demo", "--url=http://127.0.0.1:1", "--signing-key="+oneKey, "--require="+bad)
		if code != exitUsage || !strings.Contains(errs, "--require: ") || !strings.Contains(errs, "such as") && !strings.Contains(errs, "p50, p90, p99 and max") {
			t.Errorf("%s: exit %d, %q", bad, code, errs)
		}
	}
}
