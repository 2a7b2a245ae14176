package contract

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// audited names, for each operators' operation that changes something, the action that
// it writes to the audit log, and which sides of the change that has.
var audited = map[string]struct{ action, sides string }{
	"POST /api/v1/admin/activities":                          {"activity.create", "after"},
	"PATCH /api/v1/admin/activities/{id}":                    {"activity.edit", "before after"},
	"DELETE /api/v1/admin/activities/{id}":                   {"activity.delete", "before"},
	"POST /api/v1/admin/activities/{id}/clone":               {"activity.clone", "after"},
	"POST /api/v1/admin/activities/{id}/pause":               {"activity.pause", "before after"},
	"POST /api/v1/admin/activities/{id}/publish":             {"activity.publish", "before after"},
	"POST /api/v1/admin/activities/{id}/resume":              {"activity.resume", "before after"},
	"POST /api/v1/admin/activities/{id}/terminate":           {"activity.terminate", "before after"},
	"PUT /api/v1/admin/activities/{id}/rules":                {"activity.rules", "before after"},
	"POST /api/v1/admin/alarms/{id}/acknowledge":             {"alarm.acknowledge", "before after"},
	"POST /api/v1/admin/blacklist":                           {"blacklist.add", "after"},
	"DELETE /api/v1/admin/blacklist/{id}":                    {"blacklist.remove", "before"},
	"POST /api/v1/admin/coupons":                             {"coupon.create", "after"},
	"PUT /api/v1/admin/coupons/{id}":                         {"coupon.edit", "before after"},
	"DELETE /api/v1/admin/coupons/{id}":                      {"coupon.delete", "before"},
	"POST /api/v1/admin/coupons/{id}/activate":               {"coupon.active", "before after"},
	"POST /api/v1/admin/coupons/{id}/stop":                   {"coupon.stopped", "before after"},
	"POST /api/v1/admin/coupons/{id}/issue":                  {"coupon.issue", "before after"},
	"POST /api/v1/admin/coupons/{id}/recall":                 {"coupon.recall", "before after"},
	"POST /api/v1/admin/coupons/{id}/issued/{coupon}/recall": {"coupon.recall-one", "before after"},
	"POST /api/v1/admin/dead-letters/redrive":                {"dead-letter.redrive", "before"},
	"POST /api/v1/admin/dead-letters/{id}/redrive":           {"dead-letter.redrive", "before"},
	"POST /api/v1/admin/disputes/{no}/answers":               {"dispute.answer", "before after"},
	"POST /api/v1/admin/disputes/{no}/close":                 {"dispute.close", "before after"},
	"POST /api/v1/admin/items":                               {"item.create", "after"},
	"PATCH /api/v1/admin/items/{id}":                         {"item.edit", "before after"},
	"DELETE /api/v1/admin/items/{id}":                        {"item.delete", "before"},
	"PUT /api/v1/admin/items/{id}/admission":                 {"item.admission", "before after"},
	"POST /api/v1/admin/items/{id}/backup":                   {"item.backup", "before after"},
	"PUT /api/v1/admin/items/{id}/detail":                    {"item.detail", "before after"},
	"PUT /api/v1/admin/items/{id}/oversell":                  {"item.oversell", "before after"},
	"POST /api/v1/admin/items/{id}/pause":                    {"item.pause", "before after"},
	"POST /api/v1/admin/items/{id}/resume":                   {"item.resume", "before after"},
	"POST /api/v1/admin/items/{id}/stock":                    {"item.add-stock", "before after"},
	"POST /api/v1/admin/items/{id}/write-off":                {"item.write-off", "before after"},
	"POST /api/v1/admin/messages/redrive":                    {"message.redrive", "before after"},
	"POST /api/v1/admin/messages/{id}/redrive":               {"message.redrive", "before after"},
	"POST /api/v1/admin/orders/actions":                      {"order.ship", "before after"},
	"POST /api/v1/admin/orders/{no}/cancel":                  {"order.cancel", "before after"},
	"POST /api/v1/admin/orders/{no}/complete":                {"order.complete", "before after"},
	"POST /api/v1/admin/orders/{no}/notes":                   {"order.note", "after"},
	"POST /api/v1/admin/orders/{no}/refunds":                 {"refund.request", "after"},
	"PUT /api/v1/admin/orders/{no}/shipment":                 {"order.ship", "before after"},
	"POST /api/v1/admin/pickups":                             {"order.complete", "before after"},
	"POST /api/v1/admin/proof":                               {"proof.start", "after"},
	"POST /api/v1/admin/refunds/{no}/approve":                {"refund.approve", "before after"},
	"POST /api/v1/admin/refunds/{no}/reject":                 {"refund.reject", "before after"},
	"POST /api/v1/admin/refunds/{no}/retry":                  {"refund.retry", "before after"},
	"POST /api/v1/admin/refunds/{no}/settle-by-hand":         {"refund.settle-by-hand", "before after"},
	"POST /api/v1/admin/risk/rules":                          {"risk-rule.add", "after"},
	"PUT /api/v1/admin/risk/rules/{id}":                      {"risk-rule.change", "before after"},
	"DELETE /api/v1/admin/risk/rules/{id}":                   {"risk-rule.remove", "before"},
	"POST /api/v1/admin/sessions":                            {"session.create", "after"},
	"PATCH /api/v1/admin/sessions/{id}":                      {"session.edit", "before after"},
	"DELETE /api/v1/admin/sessions/{id}":                     {"session.delete", "before"},
	"POST /api/v1/admin/sessions/{id}/repeat":                {"session.repeat", "after"},
	"POST /api/v1/admin/stores":                              {"store.create", "after"},
	"PUT /api/v1/admin/stores/{id}":                          {"store.edit", "before after"},
	"DELETE /api/v1/admin/stores/{id}":                       {"store.delete", "before"},
	"POST /api/v1/admin/users/{id}/disable":                  {"user.disable", "before after"},
	"POST /api/v1/admin/users/{id}/enable":                   {"user.enable", "before after"},
	"POST /api/v1/admin/users/{id}/end-logins":               {"user.end-logins", "before after"},
	"POST /api/v1/admin/users/{id}/role":                     {"user.role", "before after"},
	"DELETE /api/v1/admin/users/{id}/totp":                   {"user.totp-reset", "before after"},
}

// changesNothing are operations that leave the audit log alone in the story, with the
// reason.
var changesNothing = map[string]string{
	"POST /api/v1/admin/reconcile":          "the story's shop has no difference to repair; inventory's tests cover it",
	"POST /api/v1/admin/risk/rules/dry-run": "it only counts",
	"POST /api/v1/admin/statements/{date}":  "the story's statement has nothing to settle; payment's tests cover it",

	"POST /api/v1/admin/refunds/{no}/end-by-chargeback": "the story's shop has lost no chargeback; payment's tests cover it",
}

// notes are actions in the log that change nothing of the shop's.
var notes = []string{"order.export", "user.search", "blacklist.refuse"}

// everyChangeIsAudited compares the operations of the document with the log that the
// story has left.
func (s *story) everyChangeIsAudited(t *testing.T, doc *shop.Document) {
	t.Helper()
	rows, err := s.db.Query(t.Context(), `SELECT action, detail FROM platform.audit ORDER BY id`)
	require.NoError(t, err)
	defer rows.Close()
	left := map[string]map[string]bool{} // by action: the sides of its rows
	for rows.Next() {
		var action string
		var detail map[string]json.RawMessage
		require.NoError(t, rows.Scan(&action, &detail))
		var sides []string
		for _, side := range []string{"before", "after"} {
			if value, has := detail[side]; has && string(value) != "null" {
				sides = append(sides, side)
			}
		}
		if len(sides) == 0 && !slices.Contains(notes, action) && !strings.HasPrefix(action, "refused.") {
			t.Errorf("%s is recorded with neither before nor after: %s", action, detail)
		}
		if left[action] == nil {
			left[action] = map[string]bool{}
		}
		left[action][strings.Join(sides, " ")] = true
	}
	require.NoError(t, rows.Err())
	for route, methods := range doc.At("paths") {
		for method := range methods.(map[string]any) {
			operation := strings.ToUpper(method) + " " + route
			want, changes := audited[operation]
			switch {
			case method == "get" || !strings.HasPrefix(route, "/api/v1/admin/"):
			case changes == (changesNothing[operation] != ""):
				t.Errorf("%s: say in audited what it records, or in changesNothing why it does not", operation)
			case changes && !left[want.action][want.sides]:
				t.Errorf("%s: the log has no %s with %s, but %v", operation, want.action, want.sides, left[want.action])
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
