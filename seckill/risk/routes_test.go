package risk

import (
	"net/http"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/require"
)

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
		if code, doc := i.call(c.role, c.method, c.path, c.body); code != c.status {
			t.Errorf("%s: %d %v, want %d", c.name, code, doc, c.status)
		}
	}
	entries, err := audit.List(t.Context(), y.db, audit.Filter{Subject: "risk rule " + id})
	require.NoError(t, err)
	var actions []string
	for _, e := range entries {
		actions = append(actions, e.Action)
	}
	require.Equal(t, "audit log", actions, []string{"risk-rule.remove", "risk-rule.change", "risk-rule.add"})
	first, second := i.addRule(good), i.addRule(good)
	_, page := i.call(auth.Viewer, http.MethodGet, "/rules?limit=1", "")
	require.Equal(t, "newest", page["data"].([]any)[0].(map[string]any)["id"], any(second))
	_, page = i.call(auth.Viewer, http.MethodGet, "/rules?limit=1&cursor="+page["next_cursor"].(string), "")
	require.Equal(t, "next page", page["data"].([]any)[0].(map[string]any)["id"], any(first))
}
