package risk

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stampede/platform/edge/auth"
	"stampede/platform/watch/audit"
)

// The same key creates a rule once and repeats the same answer.
func TestARuleIsMadeOnceForAKey(t *testing.T) {
	t.Parallel()
	i := setup(t).instance()
	add := func(threshold string) (int, map[string]any) {
		return i.call(auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":`+threshold+`,"action":"none"}`, "Idempotency-Key", "k1")
	}
	_, first := add("3")
	status, again := add("3")
	if diff := cmp.Diff(first, again); status != http.StatusCreated || diff != "" {
		t.Errorf("the second time: %d %s", status, diff)
	}
	if _, other := add("4"); other["code"] != "idempotency-mismatch" {
		t.Errorf("another rule with the key: %v", other)
	}
	kept, err := audit.List(t.Context(), i.deps.DB, audit.Filter{Action: "risk-rule.add"})
	if err != nil || len(kept) != 1 {
		t.Errorf("%d records, %v", len(kept), err)
	}
}
