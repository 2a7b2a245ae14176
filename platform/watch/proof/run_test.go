package proof_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"stampede/platform/watch/proof"
)

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
	if proof.AllOK(outcomes) || !proof.AllOK(outcomes[:1]) || proof.AllOK(outcomes[1:2]) {
		t.Errorf("AllOK is wrong about %+v", outcomes)
	}
	var b strings.Builder
	if err := proof.Write(&b, outcomes); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i, want := range []string{"ok", "COULD NOT BE CHECKED: redis is down", "VIOLATED 1 times", "user 7: has 2 live orders"} {
		if !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %d is %q, want it to end with %q", i, lines[i], want)
		}
	}
}
