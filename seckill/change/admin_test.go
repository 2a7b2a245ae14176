package change

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
	s := d.Draft(time.Hour)
	reads := []string{
		"/api/v1/admin/activities", "/api/v1/admin/activities/" + s.Activity, "/api/v1/admin/sessions", "/api/v1/admin/sessions/" + s.Session,
		"/api/v1/admin/items", "/api/v1/admin/items/" + s.Item, "/api/v1/admin/items/" + s.Item + "/funnel",
	}
	for _, path := range reads {
		for role, want := range map[auth.Role]int{"": 401, auth.Shopper: 403, auth.Viewer: 200, auth.Operator: 200} {
			if r := d.As(role, http.MethodGet, path, nil); r.Status != want {
				t.Errorf("GET %s as %q: %d, want %d: %s", path, role, r.Status, want, r.Raw)
			}
		}
	}
	writes := map[string]string{
		"/api/v1/admin/activities": http.MethodPost, "/api/v1/admin/sessions": http.MethodPost, "/api/v1/admin/items": http.MethodPost,
		"/api/v1/admin/activities/" + s.Activity:              http.MethodPatch,
		"/api/v1/admin/sessions/" + s.Session:                 http.MethodDelete,
		"/api/v1/admin/items/" + s.Item + "/stock":            http.MethodPost,
		"/api/v1/admin/activities/" + s.Activity + "/publish": http.MethodPost,
	}
	bodies := map[string]string{
		"/api/v1/admin/activities": `{"name":"x","starts_at":"2026-01-01T00:00:00Z","ends_at":"2026-01-02T00:00:00Z"}`,
		"/api/v1/admin/sessions":   `{"activity_id":"1","name":"x","opens_at":"2026-01-01T00:00:00Z","closes_at":"2026-01-02T00:00:00Z"}`,
		"/api/v1/admin/items": `{"session_id":"1","sku":"x","title":"x","list_price":{"amount":1,"currency":"CNY"},` +
			`"sale_price":{"amount":1,"currency":"CNY"},"stock":1}`,
		"/api/v1/admin/activities/" + s.Activity:   `{"version":1}`,
		"/api/v1/admin/items/" + s.Item + "/stock": `{"add":1}`,
	}
	for path, method := range writes {
		for role, want := range map[auth.Role]int{"": 401, auth.Shopper: 403, auth.Viewer: 403} {
			var body any
			if b, ok := bodies[path]; ok {
				body = b
			}
			if r := d.As(role, method, path, body); r.Status != want {
				t.Errorf("%s %s as %q: %d, want %d: %s", method, path, role, r.Status, want, r.Raw)
			}
		}
	}
}

// TestViewsAreWrittenAsTheAPISays checks one row of each kind.
func TestViewsAreWrittenAsTheAPISays(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Draft(time.Hour, func(activity, session, _ map[string]any) {
		session["opens_at"] = "2031-01-02T03:04:05.678+08:00"
		session["closes_at"] = "2031-01-02T04:00:00Z"
		activity["starts_at"], activity["ends_at"] = "2031-01-01T00:00:00Z", "2031-01-03T00:00:00Z"
	})
	r := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/items/"+s.Item, nil)
	price := r.Doc["sale_price"].(map[string]any)
	if price["amount"] != 9900.0 || price["currency"] != "CNY" || r.Doc["limit_per_user"] != 0.0 || r.Text("session_id") != s.Session {
		t.Errorf("item: %s", r.Raw)
	}
	r = d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/sessions/"+s.Session, nil)
	if r.Text("opens_at") != "2031-01-01T19:04:05.678Z" || r.Text("closes_at") != "2031-01-02T04:00:00.000Z" {
		t.Errorf("session: %s", r.Raw)
	}
	r = d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+s.Activity, nil)
	if v, ok := r.Doc["payment_window_share"]; !ok || v != nil || r.Doc["payment_window_seconds"] != 900.0 || r.Doc["rebuy_after_close"] != false {
		t.Errorf("activity: %s", r.Raw)
	}
	d.As(auth.Operator, http.MethodGet, "/api/v1/admin/activities/nonsense", nil).Want(t, "invalid id", 404, "not-found")
}

// TestListsPage pages through each list and expects each row once.
func TestListsPage(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	if r := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities", nil); string(r.Raw) != `{"data":[],"next_cursor":""}`+"\n" {
		t.Errorf("empty list: %s", r.Raw)
	}
	want := map[string]bool{}
	for range 5 {
		want[d.Draft(time.Hour).Activity] = true
	}
	path, pages := "/api/v1/admin/activities?limit=2", 0
	for cursor := "-"; cursor != ""; pages++ {
		r := d.Do(http.StatusOK, http.MethodGet, path, nil)
		for _, row := range r.Doc["data"].([]any) {
			id := row.(map[string]any)["id"].(string)
			if !want[id] {
				t.Errorf("activity %s seen twice", id)
			}
			delete(want, id)
		}
		cursor = r.Text("next_cursor")
		path = "/api/v1/admin/activities?limit=2&cursor=" + cursor
	}
	if len(want) != 0 || pages != 3 {
		t.Errorf("%d pages, not seen: %v", pages, want)
	}
	s := d.Publish(time.Hour)
	for path, want := range map[string]int{
		"/api/v1/admin/activities?status=scheduled": 1, "/api/v1/admin/sessions?activity_id=" + s.Activity: 1,
		"/api/v1/admin/items?session_id=" + s.Session: 1, "/api/v1/admin/items?activity_id=999999": 0, "/api/v1/admin/items": 6,
	} {
		if r := d.Do(http.StatusOK, http.MethodGet, path, nil); len(r.Doc["data"].([]any)) != want {
			t.Errorf("%s: %s", path, r.Raw)
		}
	}
	for _, path := range []string{"activities?cursor=!!", "sessions?cursor=Zm9v", "items?cursor=!!"} {
		if r := d.As(auth.Viewer, http.MethodGet, "/api/v1/admin/"+path, nil); r.Status != 422 || r.Text("code") != "invalid" {
			t.Errorf("%s, invalid cursor: %d %s", path, r.Status, r.Raw)
		}
	}
}
