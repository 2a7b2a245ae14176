package risk

import (
	"net/http"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

func TestDecisionIsStored(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	i := y.instance()
	stop := i.work()
	id := i.addRule(`{"kind":"unpaid_holds","threshold":2,"action":"short_window","amount":60,"note":"as agreed"}`)
	i.unpaid(9, item, 3)
	a := i.applicant(9, item)
	require.NoError(t, i.Door(t.Context(), a))
	if err := i.Door(t.Context(), i.applicant(10, item)); err != nil { // no rule applies: nothing to store
		t.Fatal(err)
	}
	stop() // stores what is queued
	code, doc := i.call(auth.Viewer, http.MethodGet, "/decisions?user_id=9&rule_id="+id, "")
	if code != http.StatusOK || len(doc["data"].([]any)) != 1 || y.count(`SELECT count(*) FROM risk.decisions`) != 1 {
		t.Fatalf("%d %v", code, doc)
	}
	got := doc["data"].([]any)[0].(map[string]any)
	require.Equal(t, "rule", got["rule"].(map[string]any), map[string]any{
		"kind": "unpaid_holds", "threshold": 2.0, "window_seconds": 2592000.0, "action": "short_window", "amount": 60.0,
	})
	require.Equal(t, "count", got["inputs"].(map[string]any)["count"], any(3.0))
	require.Equal(t, "result", got["result"], any("short-window"))
	require.Equal(t, "number", got["order_no"], any(a.OrderNo.String()))
	// The decision outlives the rule, and describes it as it was.
	if code, doc := i.call(auth.Operator, http.MethodDelete, "/rules/"+id, ""); code != http.StatusOK {
		t.Fatalf("%d %v", code, doc)
	}
	require.Equal(t, "decisions", y.count(`SELECT count(*) FROM risk.decisions WHERE rule_id = $1`, id), 1)
}
