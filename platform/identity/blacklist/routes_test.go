package blacklist

import (
	"net/http"
	"strings"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	i := s.instance(func(c *Settings) { c.MaxEntries = 100 })
	first := i.add(Phone, "13800138000")
	const good = `{"kind":"user","value":"5","reason":"x"}`
	for _, c := range []struct {
		name               string
		role               auth.Role
		method, path, body string
		status             int
	}{
		{"shopper", auth.Shopper, http.MethodGet, "", "", 403},
		{"viewer adds", auth.Viewer, http.MethodPost, "", good, 403},
		{"viewer removes", auth.Viewer, http.MethodDelete, "/" + first, "", 403},
		{"no user", auth.Operator, http.MethodPost, "", `{"kind":"user","value":"-5","reason":"x"}`, 422},
		{"no address", auth.Operator, http.MethodPost, "", `{"kind":"address","value":"example.com","reason":"x"}`, 422},
		{"half the world", auth.Operator, http.MethodPost, "", `{"kind":"address","value":"0.0.0.0/1","reason":"x"}`, 422},
		{"half the world in disguise", auth.Operator, http.MethodPost, "", `{"kind":"address","value":"::ffff:0.0.0.0/97","reason":"x"}`, 422},
		{"an interface's address", auth.Operator, http.MethodPost, "", `{"kind":"address","value":"fe80::1%eth0","reason":"x"}`, 422},
		{"no phone", auth.Operator, http.MethodPost, "", `{"kind":"phone","value":"911","reason":"x"}`, 422},
		{"no reason", auth.Operator, http.MethodPost, "", `{"kind":"user","value":"5","reason":" "}`, 422},
		{"a NUL", auth.Operator, http.MethodPost, "", `{"kind":"device","value":"a\u0000b","reason":"x"}`, 400},
		{"already expired", auth.Operator, http.MethodPost, "", `{"kind":"user","value":"5","reason":"x","expires_at":"2020-01-01T00:00:00Z"}`, 422},
		{"value without kind", auth.Viewer, http.MethodGet, "?value=5", "", 422},
		{"a viewer searches by phone", auth.Viewer, http.MethodGet, "?kind=phone&value=13800138000", "", 403},
		{"an invalid cursor", auth.Viewer, http.MethodGet, "?cursor=x", "", 422},
		{"no such entry", auth.Operator, http.MethodDelete, "/4711", "", 404},
		{"add", auth.Operator, http.MethodPost, "", good, 201},
	} {
		if code, doc := i.call(c.role, c.method, c.path, c.body); code != c.status {
			t.Errorf("%s: %d %v, want %d", c.name, code, doc, c.status)
		}
	}
	// Pages are newest first; a phone is masked, and found by its number.
	_, page := i.call(auth.Viewer, http.MethodGet, "?limit=1", "")
	if e := page["data"].([]any)[0].(map[string]any); e["value"] != "5" || e["created_by"] != "7" || e["in_force"] != true {
		t.Errorf("%v", e)
	}
	_, page = i.call(auth.Viewer, http.MethodGet, "?limit=1&cursor="+page["next_cursor"].(string), "")
	if e := page["data"].([]any)[0].(map[string]any); e["value"] != "138****8000" || page["next_cursor"] != "" {
		t.Errorf("%v", page)
	}
	_, page = i.call(auth.Operator, http.MethodGet, "?kind=phone&value=13800138000&active=true", "")
	require.Equal(t, "entries for the phone", len(page["data"].([]any)), 1)

	if code, _ := i.call(auth.Operator, http.MethodDelete, "/"+first, ""); code != http.StatusOK {
		t.Errorf("remove: %d", code)
	}
	entries, err := audit.List(t.Context(), s.db, audit.Filter{Subject: "blacklist " + first})
	if err != nil || len(entries) != 2 || entries[0].Action != "blacklist.remove" || entries[1].Action != "blacklist.add" {
		t.Fatalf("%v %v", entries, err)
	}
	if strings.Contains(string(entries[0].Detail)+string(entries[1].Detail), "13800138000") {
		t.Errorf("the audit log contains a phone: %s", entries[0].Detail)
	}

	// The list is bounded; replacing an entry needs no room.
	pgtest.Exec(t, s.db, `INSERT INTO platform.blacklist (kind, value, reason, created_by)
		SELECT 'user', n::text, 'x', 1 FROM generate_series(1000, 1098) n`)
	if code, doc := i.call(auth.Operator, http.MethodPost, "", `{"kind":"user","value":"6","reason":"x"}`); code != http.StatusConflict || doc["code"] != "list-full" {
		t.Errorf("above the limit: %d %v", code, doc)
	}
	if code, _ := i.call(auth.Operator, http.MethodPost, "", good); code != http.StatusCreated {
		t.Errorf("the same again: %d", code)
	}
}
