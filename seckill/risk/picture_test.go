package risk

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// inForce is three times the time in which a change must be in force on every
// instance, as an allowance for a busy machine.
const inForce = 3 * time.Second

// A change on one instance is in force on another within a second: a new rule, a
// user who reaches its threshold, an edit, its removal.
func TestRulesReachEveryInstance(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	one, two := y.instance(), y.instance()
	two.work()
	refuses := func(want bool, what string) {
		t.Helper()
		pgtest.Eventually(t, inForce, func() bool { return (two.Door(t.Context(), two.applicant(1, item)) != nil) == want }, what)
	}
	one.unpaid(1, item, 2)
	id := one.addRule(`{"kind":"unpaid_holds","threshold":2,"action":"none"}`)
	refuses(true, "the rule is in force elsewhere")
	one.must(http.StatusOK, auth.Operator, http.MethodPut, "/rules/"+id, `{"kind":"unpaid_holds","threshold":3,"action":"none"}`)
	refuses(false, "the change is in force elsewhere")
	one.unpaid(1, item, 1)
	refuses(true, "the user's next closing counts elsewhere")
	// Without a broadcast the poll finds the change.
	y.exec(`DELETE FROM risk.rules`)
	y.exec(`UPDATE risk.revision SET revision = revision + 1`)
	refuses(false, "a change that was not broadcast is found")
}

func TestRulesAndMarksExpire(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	i := y.instance()
	refused := func(user int64) bool { return i.Door(t.Context(), i.applicant(user, item)) != nil }
	i.addRule(fmt.Sprintf(`{"kind":"unpaid_holds","threshold":1,"action":"none","expires_at":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339)))
	i.unpaid(1, item, 1)
	require.Equal(t, "refused by the rule", refused(1), true)
	i.clock.Advance(time.Hour + time.Second)
	require.Equal(t, "refused by the rule after its end", refused(1), false)
	i.clock.Advance(-time.Hour - time.Second)
	i.addRule(`{"kind":"unpaid_holds","threshold":2,"window_seconds":7200,"action":"none"}`)
	i.unpaid(2, item, 2)
	require.Equal(t, "refused by the second rule", refused(2), true)
	i.clock.Advance(2*time.Hour + time.Second) // the first rule has expired, and both closings have left the window
	require.Equal(t, "refused by a mark after its window", refused(2), false)
}

func TestRuleRoutes(t *testing.T) {
	t.Parallel()
	y := setup(t)
	i := y.instance()
	const good = `{"kind":"unpaid_holds","threshold":2,"action":"chance","amount":0.5}`
	id := i.addRule(good)
	for _, c := range []struct {
		name               string
		role               auth.Role
		method, path, body string
		status             int
	}{
		{"shopper", auth.Shopper, http.MethodGet, "/rules", "", 403},
		{"viewer reads", auth.Viewer, http.MethodGet, "/rules", "", 200},
		{"viewer adds", auth.Viewer, http.MethodPost, "/rules", good, 403},
		{"viewer removes", auth.Viewer, http.MethodDelete, "/rules/" + id, "", 403},
		{"unknown kind", auth.Operator, http.MethodPost, "/rules", `{"kind":"looks","threshold":2,"action":"none"}`, 422},
		{"unknown action", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"fine"}`, 422},
		{"no threshold", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":0,"action":"none"}`, 422},
		{"certain chance", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"chance","amount":1}`, 422},
		{"window too short to pay", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"short_window","amount":9}`, 422},
		{"too late", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"later","amount":600001}`, 422},
		{"an amount of nothing", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"none","amount":1}`, 422},
		{"endless window", auth.Operator, http.MethodPost, "/rules", `{"kind":"unpaid_holds","threshold":2,"window_seconds":9223372036854775807,"action":"none"}`, 422},
		{"over already", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"none","expires_at":"2020-01-01T00:00:00Z"}`, 422},
		{"another kind", auth.Operator, http.MethodPut, "/rules/" + id, `{"kind":"open_unpaid","threshold":2,"action":"none"}`, 422},
		{"no such rule", auth.Operator, http.MethodPut, "/rules/4711", good, 404},
		{"no such rule to remove", auth.Operator, http.MethodDelete, "/rules/4711", "", 404},
		{"an invalid cursor", auth.Viewer, http.MethodGet, "/decisions?cursor=x", "", 422},
		{"change", auth.Operator, http.MethodPut, "/rules/" + id, `{"kind":"unpaid_holds","threshold":3,"action":"none"}`, 200},
		{"remove", auth.Operator, http.MethodDelete, "/rules/" + id, "", 200},
	} {
		i.must(c.status, c.role, c.method, c.path, c.body)
	}
	entries, err := audit.List(t.Context(), y.db, audit.Filter{Subject: "risk rule " + id})
	require.NoError(t, err)
	var actions []string
	for _, e := range entries {
		actions = append(actions, e.Action)
	}
	require.Equal(t, "audit log", actions, []string{"risk-rule.remove", "risk-rule.change", "risk-rule.add"})
	var made [2]map[string]any // once per key
	for n := range made {
		_, made[n] = i.call(auth.Operator, http.MethodPost, "/rules", good, "Idempotency-Key", "k1")
	}
	require.Equal(t, "the second answer to a key", made[1], made[0])
	first, second := made[0]["id"].(string), i.addRule(good)
	_, page := i.call(auth.Viewer, http.MethodGet, "/rules?limit=1", "")
	require.Equal(t, "newest", page["data"].([]any)[0].(map[string]any)["id"], any(second))
	_, page = i.call(auth.Viewer, http.MethodGet, "/rules?limit=1&cursor="+page["next_cursor"].(string), "")
	require.Equal(t, "next page", page["data"].([]any)[0].(map[string]any)["id"], any(first))
}
