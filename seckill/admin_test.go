package seckill

import (
	"net/http"
	"testing"
	"time"

	"stampede/platform/edge/auth"
)

// TestRoles requests every operator route in every role.
func TestRoles(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.draft(time.Hour)
	reads := []string{
		"/api/v1/admin/activities", "/api/v1/admin/activities/" + s.activity, "/api/v1/admin/sessions", "/api/v1/admin/sessions/" + s.session,
		"/api/v1/admin/items", "/api/v1/admin/items/" + s.item, "/api/v1/admin/audit", "/api/v1/admin/items/" + s.item + "/funnel",
	}
	for _, path := range reads {
		for role, want := range map[auth.Role]int{"": 401, auth.Shopper: 403, auth.Viewer: 200, auth.Operator: 200} {
			if r := d.as(role, http.MethodGet, path, nil); r.status != want {
				t.Errorf("GET %s as %q: %d, want %d: %s", path, role, r.status, want, r.raw)
			}
		}
	}
	writes := map[string]string{
		"/api/v1/admin/activities": http.MethodPost, "/api/v1/admin/sessions": http.MethodPost, "/api/v1/admin/items": http.MethodPost,
		"/api/v1/admin/activities/" + s.activity:              http.MethodPatch,
		"/api/v1/admin/sessions/" + s.session:                 http.MethodDelete,
		"/api/v1/admin/items/" + s.item + "/stock":            http.MethodPost,
		"/api/v1/admin/activities/" + s.activity + "/publish": http.MethodPost,
	}
	bodies := map[string]string{
		"/api/v1/admin/activities": `{"name":"x","starts_at":"2026-01-01T00:00:00Z","ends_at":"2026-01-02T00:00:00Z"}`,
		"/api/v1/admin/sessions":   `{"activity_id":"1","name":"x","opens_at":"2026-01-01T00:00:00Z","closes_at":"2026-01-02T00:00:00Z"}`,
		"/api/v1/admin/items": `{"session_id":"1","sku":"x","title":"x","list_price":{"amount":1,"currency":"CNY"},` +
			`"sale_price":{"amount":1,"currency":"CNY"},"stock":1}`,
		"/api/v1/admin/activities/" + s.activity:   `{"version":1}`,
		"/api/v1/admin/items/" + s.item + "/stock": `{"add":1}`,
	}
	for path, method := range writes {
		for role, want := range map[auth.Role]int{"": 401, auth.Shopper: 403, auth.Viewer: 403} {
			var body any
			if b, ok := bodies[path]; ok {
				body = b
			}
			if r := d.as(role, method, path, body); r.status != want {
				t.Errorf("%s %s as %q: %d, want %d: %s", method, path, role, r.status, want, r.raw)
			}
		}
	}
}

// TestViewsAreWrittenAsTheAPISays checks one row of each kind.
func TestViewsAreWrittenAsTheAPISays(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.draft(time.Hour, func(activity, session, _ map[string]any) {
		session["opens_at"] = "2031-01-02T03:04:05.678+08:00"
		session["closes_at"] = "2031-01-02T04:00:00Z"
		activity["starts_at"], activity["ends_at"] = "2031-01-01T00:00:00Z", "2031-01-03T00:00:00Z"
	})
	r := d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/items/"+s.item, nil)
	price := r.body["sale_price"].(map[string]any)
	if price["amount"] != 9900.0 || price["currency"] != "CNY" || r.body["limit_per_user"] != 0.0 || r.text("session_id") != s.session {
		t.Errorf("item: %s", r.raw)
	}
	r = d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/sessions/"+s.session, nil)
	if r.text("opens_at") != "2031-01-01T19:04:05.678Z" || r.text("closes_at") != "2031-01-02T04:00:00.000Z" {
		t.Errorf("session: %s", r.raw)
	}
	r = d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+s.activity, nil)
	if v, ok := r.body["payment_window_share"]; !ok || v != nil || r.body["payment_window_seconds"] != 900.0 || r.body["rebuy_after_close"] != false {
		t.Errorf("activity: %s", r.raw)
	}
	d.as(auth.Operator, http.MethodGet, "/api/v1/admin/activities/nonsense", nil).want(t, "invalid id", 404, "not-found")
}

// TestListsPage pages through each list and expects each row once.
func TestListsPage(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	if r := d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities", nil); string(r.raw) != `{"data":[],"next_cursor":""}`+"\n" {
		t.Errorf("empty list: %s", r.raw)
	}
	want := map[string]bool{}
	for range 5 {
		want[d.draft(time.Hour).activity] = true
	}
	path, pages := "/api/v1/admin/activities?limit=2", 0
	for cursor := "-"; cursor != ""; pages++ {
		r := d.do(http.StatusOK, http.MethodGet, path, nil)
		for _, row := range r.body["data"].([]any) {
			id := row.(map[string]any)["id"].(string)
			if !want[id] {
				t.Errorf("activity %s seen twice", id)
			}
			delete(want, id)
		}
		cursor = r.text("next_cursor")
		path = "/api/v1/admin/activities?limit=2&cursor=" + cursor
	}
	if len(want) != 0 || pages != 3 {
		t.Errorf("%d pages, not seen: %v", pages, want)
	}
	s := d.publish(time.Hour)
	for path, want := range map[string]int{
		"/api/v1/admin/activities?status=scheduled": 1, "/api/v1/admin/sessions?activity_id=" + s.activity: 1,
		"/api/v1/admin/items?session_id=" + s.session: 1, "/api/v1/admin/items?activity_id=999999": 0, "/api/v1/admin/items": 6,
	} {
		if r := d.do(http.StatusOK, http.MethodGet, path, nil); len(r.body["data"].([]any)) != want {
			t.Errorf("%s: %s", path, r.raw)
		}
	}
	for _, path := range []string{"activities?cursor=!!", "sessions?cursor=Zm9v", "items?cursor=!!", "audit?cursor=Zm9v"} {
		if r := d.as(auth.Viewer, http.MethodGet, "/api/v1/admin/"+path, nil); r.status != 422 || r.text("code") != "invalid" {
			t.Errorf("%s, invalid cursor: %d %s", path, r.status, r.raw)
		}
	}
}
