package seckill

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
)

// TestASaleFromDraftToEnd runs a sale from draft to end through the API alone
// and checks what each step records.
func TestASaleFromDraftToEnd(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	var s sale
	if tr := d.traced(func() { s = d.draft(time.Hour) }); strings.Join(tr.actions, " ") != "activity.create session.create item.create" || tr.events != 0 {
		t.Errorf("creating a draft left %v", tr)
	}
	base := "/api/v1/admin/activities/" + s.activity
	if tr := d.traced(func() { d.do(http.StatusOK, http.MethodPost, base+"/publish", nil) }); tr.String() != "[activity.publish] and 1 events" {
		t.Errorf("publishing left %v", tr)
	}
	if n := d.number(`SELECT total FROM inventory.stock WHERE item_id = $1`, s.item); n != 10 {
		t.Errorf("stock after publication is %d", n)
	}
	r := d.do(http.StatusOK, http.MethodGet, base, nil)
	if r.text("status") != "scheduled" {
		t.Errorf("status after publication: %s", r.raw)
	}
	if tr := d.traced(func() { d.do(http.StatusOK, http.MethodPost, base+"/pause", nil) }); tr.String() != "[activity.pause] and 1 events" {
		t.Errorf("pausing left %v", tr)
	}
	if n := d.number(`SELECT count(*) FROM inventory.stock WHERE item_id = $1 AND paused AND rev = 2`, s.item); n != 1 {
		t.Error("pausing did not reach the stock row")
	}
	d.do(http.StatusOK, http.MethodPost, base+"/resume", nil)
	if tr := d.traced(func() {
		r := d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+s.item+"/stock", `{"add": 5}`)
		if r.body["stock"] != 15.0 {
			t.Errorf("stock after adding: %s", r.raw)
		}
	}); tr.String() != "[item.add-stock] and 1 events" {
		t.Errorf("adding stock left %v", tr)
	}
	if n := d.number(`SELECT total FROM inventory.stock WHERE item_id = $1`, s.item); n != 15 {
		t.Errorf("stock row after adding is %d", n)
	}
	if tr := d.traced(func() { d.do(http.StatusOK, http.MethodPost, base+"/terminate", nil) }); tr.String() != "[activity.terminate] and 1 events" {
		t.Errorf("terminating left %v", tr)
	}
	if n := d.number(`SELECT count(*) FROM inventory.stock WHERE item_id = $1 AND paused`, s.item); n != 1 {
		t.Error("an item that never opened can still be bought after its activity was terminated")
	}
	if tr := d.traced(func() { d.as(auth.Operator, http.MethodPost, base+"/resume", nil) }); tr.String() != "[] and 0 events" {
		t.Errorf("a refused action left %v", tr)
	}
}

// TestAuditNamesWhoDidWhat reads the audit log through the API.
func TestAuditNamesWhoDidWhat(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.publish(time.Hour)
	r := d.as(auth.Viewer, http.MethodGet, "/api/v1/admin/audit?limit=1&subject=activity%20"+s.activity, nil)
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.raw)
	}
	row := r.body["data"].([]any)[0].(map[string]any)
	if row["actor"] != "72" || row["role"] != "operator" || row["action"] != "activity.publish" {
		t.Errorf("newest action: %v", row)
	}
	next := d.as(auth.Viewer, http.MethodGet, "/api/v1/admin/audit?limit=1&subject=activity%20"+s.activity+"&cursor="+r.text("next_cursor"), nil)
	if row := next.body["data"].([]any)[0].(map[string]any); row["action"] != "activity.create" || next.text("next_cursor") != "" {
		t.Errorf("second page: %s", next.raw)
	}
}

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
	if r := d.as(auth.Operator, http.MethodGet, "/api/v1/admin/activities/nonsense", nil); r.status != 404 || r.text("code") != "not-found" {
		t.Errorf("invalid id: %d %s", r.status, r.raw)
	}
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

// TestIdempotencyKey repeats requests that create something.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.publish(time.Hour)
	path := "/api/v1/admin/items/" + s.item + "/stock"
	first := d.do(http.StatusOK, http.MethodPost, path, `{"add": 3}`, "Idempotency-Key", "k1")
	tr := d.traced(func() {
		again := d.do(http.StatusOK, http.MethodPost, path, `{ "add":3 }`, "Idempotency-Key", "k1")
		if !bytes.Equal(again.raw, first.raw) {
			t.Errorf("repeated: %s\nfirst: %s", again.raw, first.raw)
		}
	})
	if tr.String() != "[] and 0 events" {
		t.Errorf("a repetition left %v", tr)
	}
	if r := d.as(auth.Operator, http.MethodPost, path, `{"add": 4}`, "Idempotency-Key", "k1"); r.status != 422 || r.text("code") != "idempotency-mismatch" {
		t.Errorf("another body under the key: %d %s", r.status, r.raw)
	}
	if n := d.number(`SELECT total FROM inventory.stock WHERE item_id = $1`, s.item); n != 13 {
		t.Errorf("stock is %d after one addition of 3", n)
	}
	// A failed request keeps nothing under its key: it can be repeated once the cause
	// is fixed.
	other := d.draft(time.Hour)
	path = "/api/v1/admin/items/" + other.item + "/stock"
	if r := d.as(auth.Operator, http.MethodPost, path, `{"add": 1}`, "Idempotency-Key", "k2"); r.status != 409 {
		t.Fatalf("adding stock to a draft: %d %s", r.status, r.raw)
	}
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+other.activity+"/publish", nil)
	d.do(http.StatusOK, http.MethodPost, path, `{"add": 1}`, "Idempotency-Key", "k2")

	// While one request holds the key, a second one gets idempotency-in-flight.
	tx, err := d.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtextextended('idempotency 72 k3', 0))`); err != nil {
		t.Fatal(err)
	}
	if r := d.as(auth.Operator, http.MethodPost, path, `{"add": 1}`, "Idempotency-Key", "k3"); r.status != 409 || r.text("code") != "idempotency-in-flight" {
		t.Errorf("while another request holds the key: %d %s", r.status, r.raw)
	}
}
