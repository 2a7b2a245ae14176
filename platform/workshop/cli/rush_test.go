package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
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
		required := make([]loadgen.Requirement, len(c.require))
		for i, text := range c.require {
			require.NoError(t, required[i].UnmarshalText([]byte(text)))
		}
		err := (&Rush{Require: required, JSON: c.json}).finish(&out, report, nil)
		require.ErrorIs(t, err, c.err)
		require.Contains(t, fmt.Sprint(c.require), out.String(), c.out)
	}
	for _, bad := range []string{"p99<200", "p99<200ms,quickly>1"} {
		code, _, errs := carryOut(t.Context(), nil, "rush", "--demo", "--url=http://127.0.0.1:1", "--signing-key="+oneKey, "--require="+bad)
		if code != exitUsage || !strings.Contains(errs, "--require: ") || !strings.Contains(errs, "such as") && !strings.Contains(errs, "p50, p90, p99 and max") {
			t.Errorf("%s: exit %d, %q", bad, code, errs)
		}
	}
}

// A server that went away mostly took its stores along: what to do is said once, and
// nothing about Postgres beside it.
func TestRushOfALostServerSaysOneThing(t *testing.T) {
	t.Parallel()
	cause := errors.New("Postgres is out of reach")
	away := func() (Evidence, error) { return Evidence{}, unreached{cause} }
	broken := func() (Evidence, error) { return Evidence{}, cause }
	report := &loadgen.Report{NotKnown: &loadgen.NotKnown{Count: 1, First: []string{"a"}}, Outcomes: map[string]int64{"not known": 1}}
	var out strings.Builder
	require.Equal(t, "error", fmt.Sprint((&Rush{}).finish(&out, report, away)), errDeserted.Error())
	require.Contains(t, "report", out.String(), "run stampede verify")
	require.Contains(t, "of stores that are there", fmt.Sprint((&Rush{}).finish(&out, report, broken)), cause.Error())
	require.Contains(t, "of a server that is there", fmt.Sprint((&Rush{}).finish(&out, &loadgen.Report{}, away)), "prove the books: Postgres is out of reach")
}

// FuzzRushFigures checks that --pay and --rate are either usable numbers or refused.
func FuzzRushFigures(f *testing.F) {
	f.Add("80%", "max")
	f.Add("0.8", "1000")
	f.Add("NaN", "NaN")
	f.Add("-0%", "+Inf")
	f.Add("101%", "1e999")
	f.Fuzz(func(t *testing.T, pay, rate string) {
		c := Rush{Item: 1, Shoppers: 1, Pay: pay, Rate: rate}
		cfg, err := c.play(Noted{})
		if err != nil {
			return
		}
		if !(cfg.PayShare >= 0 && cfg.PayShare <= 1) {
			t.Fatalf("--pay %q is the share %v", pay, cfg.PayShare)
		}
		if rate != "max" && !(cfg.Rate > 0 && cfg.Rate <= 1e308) {
			t.Fatalf("--rate %q is %v per second", rate, cfg.Rate)
		}
	})
}

// TestRushOfAnotherServer: the books of the data folder say nothing about a server that --url names, unless --data names
// the folder too.
func TestRushOfAnotherServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/rush-path"):
			_, _ = fmt.Fprintf(w, `{"path":"p-1","order_no":"%s"}`, ids.NewFor(1))
		case strings.HasPrefix(r.URL.Path, "/api/v1/rush/"):
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprint(w, `{"code":"all-held"}`)
		default:
			_, _ = fmt.Fprintf(w, `{"opens_at":%q}`, time.Now().Format(time.RFC3339))
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	_, err := keepStack(dir, Noted{BaseURL: "http://127.0.0.1:1", DatabaseURL: pgtest.DatabaseURL(t), RedisURL: pgtest.RedisURL(t), SigningKey: oneKey})
	require.NoError(t, err)
	t.Setenv("STAMPEDE_DATA", dir)
	t.Setenv("STAMPEDE_URL", server.URL+"/")
	for _, c := range []struct {
		args []string
		said string
	}{
		{nil, "The books were not proved: give --data"},
		{[]string{"--url=" + server.URL, "--data=" + dir}, "the proof"},
	} {
		prove := func(context.Context, Stores, int64, []proof.ClientRecord) (Evidence, error) {
			return Evidence{WriteBooks: func(w io.Writer) error { _, err := io.WriteString(w, "the proof"); return err }}, nil
		}
		code, out, errs := carryOut(t.Context(), prove, append([]string{"rush", "--item=1", "--shoppers=1", "--sockets=0"}, c.args...)...)
		require.Equal(t, "exit code: "+errs, code, 0)
		require.Contains(t, "the report", out, c.said)
	}
}
