package proof_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stampede/platform/watch/proof"
	"stampede/platform/workshop/require"
)

// What one look does not find was in flight; what all find is reported in the
// words of the last.
func TestLastingReportsWhatEveryLookFinds(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		looks [][]proof.Violation
		fails int // the look that fails, from 1
		want  []proof.Violation
		took  time.Duration
	}{
		"nothing":      {looks: [][]proof.Violation{nil}},
		"it passes":    {looks: [][]proof.Violation{{{"a", "1"}}, {{"a", "2"}}, nil}, took: 2 * time.Second},
		"it lasts":     {looks: [][]proof.Violation{{{"a", "1"}, {"b", "1"}}, {{"a", "2"}, {"c", "1"}}, {{"a", "3"}, {"b", "2"}, {"c", "2"}}}, want: []proof.Violation{{"a", "3"}}, took: 2 * time.Second},
		"a look fails": {looks: [][]proof.Violation{{{"a", "1"}}, {{"a", "1"}}}, fails: 2, took: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, n := time.Now(), 0
				found, err := proof.Lasting(t.Context(), time.Second, 2, proof.BySubject, func(context.Context) ([]proof.Violation, error) {
					if n++; n == c.fails {
						return nil, broken
					}
					return c.looks[n-1], nil
				})
				if errors.Is(err, broken) != (c.fails > 0) || len(found) != len(c.want) || len(found) > 0 && found[0] != c.want[0] {
					t.Errorf("found %v, error %v; want %v", found, err, c.want)
				}
				require.Equal(t, "took", time.Since(began), c.took)
			})
		})
	}
}

func check(id string, violations []proof.Violation, err error) proof.Check {
	return proof.Check{ID: id, Name: "name of " + id, Run: func(context.Context) ([]proof.Violation, error) { return violations, err }}
}

func TestRunOrdersAndPrints(t *testing.T) {
	t.Parallel()
	outcomes := proof.Run(t.Context(), []proof.Check{
		check("I3", []proof.Violation{{Subject: "user 7", Detail: "has 2 live orders"}}, nil),
		check("I1", nil, nil),
		check("I2", nil, errors.New("redis is down")),
	})
	require.Equal(t, "AllOK", fmt.Sprint(proof.AllOK(outcomes), proof.AllOK(outcomes[:1]), proof.AllOK(outcomes[1:2])), "false true false")
	var b strings.Builder
	require.NoError(t, proof.Write(&b, outcomes))
	lines := strings.Split(b.String(), "\n")
	for i, want := range []string{"ok", "COULD NOT BE CHECKED: redis is down", "VIOLATED 1 times", "user 7: has 2 live orders"} {
		require.Equal(t, fmt.Sprintf("%q ends with %q", lines[i], want), strings.HasSuffix(lines[i], want), true)
	}
}
