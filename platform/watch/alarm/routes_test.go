package alarm_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// Viewers read, operators acknowledge; every answer, and the audit row.
func TestAlarmRoutes(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	tokens := auth.NewTokens([]byte(strings.Repeat("k", 16)+strings.Repeat("y", 16)), time.Now)
	rt := httpx.NewRouter(tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	alarm.Routes(rt, pool, notifier(t, pool, nil))
	raise(t, pool, slow, "refund 1", "timeout")
	raise(t, pool, letter, "inventory-commit", "no memory")

	call := func(role auth.Role, method, path, body string) (int, map[string]any) {
		t.Helper()
		return httpxtest.As(t, rt, tokens, role, method, path, body)
	}
	const path = "/api/v1/admin/alarms"
	subjects := func(doc map[string]any) (all []string) {
		for _, a := range doc["data"].([]any) {
			all = append(all, a.(map[string]any)["subject"].(string))
		}
		return all
	}
	_, page := call(auth.Viewer, http.MethodGet, path+"?limit=1", "")
	cursor, _ := page["next_cursor"].(string)
	newest := page["data"].([]any)[0].(map[string]any)
	if newest["code"] != "test-letter" || newest["severity"] != "critical" || newest["detail"] != "no memory" || newest["next_action"] == "" || newest["count"] != 1.0 ||
		len(newest["first_seen_at"].(string)) != len("2026-11-11T12:00:00.000Z") {
		t.Errorf("newest alarm %v", newest)
	}
	id, _ := newest["id"].(string)
	ack := path + "/" + id + "/acknowledge"

	for _, c := range []struct {
		name               string
		role               auth.Role
		method, path, body string
		status             int
		want               string // the code of a problem, or the subjects listed
	}{
		{"a shopper", auth.Shopper, http.MethodGet, path, "", 403, "forbidden"},
		{"all", auth.Viewer, http.MethodGet, path, "", 200, "inventory-commit,refund 1"},
		{"second page", auth.Viewer, http.MethodGet, path + "?limit=1&cursor=" + cursor, "", 200, "refund 1"},
		{"by severity", auth.Viewer, http.MethodGet, path + "?severity=warning", "", 200, "refund 1"},
		{"by code", auth.Viewer, http.MethodGet, path + "?code=test-letter", "", 200, "inventory-commit"},
		{"unknown code", auth.Viewer, http.MethodGet, path + "?code=made-up", "", 422, "invalid"},
		{"unknown severity", auth.Viewer, http.MethodGet, path + "?severity=loud", "", 422, "invalid"},
		{"bad cursor", auth.Viewer, http.MethodGet, path + "?cursor=zzz", "", 422, "invalid"},
		{"a viewer acknowledges", auth.Viewer, http.MethodPost, ack, `{"name":"Li"}`, 403, "forbidden"},
		{"no such alarm", auth.Operator, http.MethodPost, path + "/999/acknowledge", `{"name":"Li"}`, 404, "not-found"},
		{"no id", auth.Operator, http.MethodPost, path + "/x/acknowledge", `{"name":"Li"}`, 404, "not-found"},
		{"a long name", auth.Operator, http.MethodPost, ack, `{"name":"` + strings.Repeat("L", 65) + `"}`, 422, "invalid"},
		{"acknowledged", auth.Operator, http.MethodPost, ack, `{"name":"Li"}`, 200, "Li"},
		{"acknowledged again", auth.Operator, http.MethodPost, ack, "", 200, "Li"},
		{"open ones", auth.Viewer, http.MethodGet, path + "?open=true", "", 200, "refund 1"},
	} {
		status, doc := call(c.role, c.method, c.path, c.body)
		got, _ := doc["code"].(string)
		switch {
		case status != http.StatusOK:
		case c.method == http.MethodGet:
			got = strings.Join(subjects(doc), ",")
		default:
			got, _ = doc["acknowledged_by"].(string)
		}
		require.Equal(t, fmt.Sprintf("%s: %v", c.name, doc), []any{status, got}, []any{c.status, c.want})
	}
	_, doc := call(auth.Admin, http.MethodPost, path+"/1/acknowledge", "")
	require.Equal(t, "acknowledged without a name", doc["acknowledged_by"], any("user 7"))
	actions, err := audit.List(t.Context(), pool, audit.Filter{Subject: "alarm " + id})
	if err != nil || len(actions) != 1 || actions[0].Action != "alarm.acknowledge" || actions[0].Actor != 7 || !strings.Contains(string(actions[0].Detail), `"Li"`) {
		t.Errorf("audited %+v, %v", actions, err)
	}
	for _, d := range alarm.Definitions() {
		require.Contains(t, "documentation", rt.API.Huma.OpenAPI().Paths[path].Get.Description, "`"+string(d.Code)+"`")
	}
}
