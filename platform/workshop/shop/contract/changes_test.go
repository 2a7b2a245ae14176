package contract

import (
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// leavesNothing are operations that leave nothing in the audit log of the story, with the
// reason.
var leavesNothing = map[string]string{
	"POST /api/v1/admin/shopper-message-texts/{kind}/{channel}/{language}/preview": "it changes nothing",
	"POST /api/v1/admin/shopper-message-texts/{kind}/{channel}/{language}/test":    "the story's operator has no phone; notify's tests cover it",
	"POST /api/v1/admin/reconcile":                      "the story's shop has no difference to repair; inventory's tests cover it",
	"POST /api/v1/admin/statements/{date}":              "the story's statement has nothing to settle; payment's tests cover it",
	"POST /api/v1/admin/refunds/{no}/end-by-chargeback": "the story's shop has lost no chargeback; payment's tests cover it",
}

// everyChangeIsAudited compares the operations of the document with the log that the
// story has left: what is edited has both sides of the change, what is deleted its last
// state. Nothing erases the log, so it has neither the shoppers' words nor their phones.
func (s *story) everyChangeIsAudited(t *testing.T, doc *shop.Document) {
	t.Helper()
	rows, err := s.db.Query(t.Context(), `SELECT action, detail FROM platform.audit ORDER BY id`)
	require.NoError(t, err)
	defer rows.Close()
	left := map[string]map[string]bool{} // by action: the members of its rows
	for rows.Next() {
		var action string
		var detail json.RawMessage
		require.NoError(t, rows.Scan(&action, &detail))
		for _, private := range []string{"Wang", "too small", "13800138555", "call before"} {
			require.Equal(t, action+" records "+private, strings.Contains(string(detail), private), false)
		}
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(detail, &members))
		if left[action] == nil {
			left[action] = map[string]bool{}
		}
		for name := range members {
			left[action][name] = true
		}
	}
	require.NoError(t, rows.Err())
	sides := map[string][]string{"put": {"before", "after"}, "patch": {"before", "after"}, "delete": {"before"}}
	for route := range doc.At("paths") {
		for method, operation := range doc.At("paths", route) {
			pattern := text(operation.(map[string]any), "x-audit")
			name := strings.ToUpper(method) + " " + route
			found := false
			for action, members := range left {
				matches, err := path.Match(pattern, action)
				require.NoError(t, err)
				found = found || matches && !slices.ContainsFunc(sides[method], func(side string) bool { return !members[side] })
			}
			if pattern != "" && found == (leavesNothing[name] != "") {
				t.Errorf("%s: a row %s with %v in the log: %v", name, pattern, sides[method], found)
			}
		}
	}
}

// moment formats a time as in request bodies.
func moment(in time.Duration) string { return time.Now().Add(in).UTC().Format(time.RFC3339) }

// narrow checks a list that has rows and can be narrowed to what changed: nothing has
// changed in the future, and everything since long ago.
func (s *story) narrow(t *testing.T, path, token string) {
	t.Helper()
	doc, err := shop.Documented()
	require.NoError(t, err)
	bare, _, _ := strings.Cut(path, "?")
	operation, parameters := doc.Parameters(http.MethodGet, "/api/v1/"+bare)
	if !slices.Contains(parameters, "updated_from") || s.narrowed[operation] {
		return
	}
	s.narrowed[operation] = true
	with := "?"
	if bare != path {
		with = "&"
	}
	list := func(query string) (rows []any, next string) {
		answer := s.ask(t, http.MethodGet, path+query, token, "", 200)
		rows, _ = answer["data"].([]any)
		return rows, text(answer, "next_cursor")
	}
	since := func(at time.Duration) string { return with + "updated_from=" + moment(at) }
	if rows, next := list(since(time.Hour)); len(rows) > 0 || next != "" {
		t.Errorf("%s: %d rows will have changed in an hour, and there are more at %q", path, len(rows), next)
	}
	pgtest.Eventually(t, 10*time.Second, func() bool {
		all, _ := list("")
		changed, _ := list(since(-24 * time.Hour))
		return len(all) == len(changed)
	}, path+" since yesterday to have all rows")
}

// everyListHasChanges requires updated_from of every operators' list and of the
// shopper's orders, and that the story has seen it work.
func (s *story) everyListHasChanges(t *testing.T, doc *shop.Document) {
	t.Helper()
	for route := range doc.At("paths") {
		operation, parameters := doc.Parameters(http.MethodGet, route)
		if route == "/api/v1/admin/users/{id}/points" { // a ledger, of which no entry changes
			continue
		}
		if !slices.Contains(parameters, "cursor") || !strings.HasPrefix(route, "/api/v1/admin/") && route != "/api/v1/orders" {
			continue
		}
		if !slices.Contains(parameters, "updated_from") {
			t.Errorf("%s has no updated_from", operation)
		}
		if !s.narrowed[operation] && route != "/api/v1/admin/orders/export" { // a file; order/search's tests cover it
			t.Errorf("%s: the story lists no rows", operation)
		}
	}
}
