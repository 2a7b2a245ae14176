package seckill

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// TestShoppersReadDetails writes a description, pictures and rules, corrects them while
// the sale runs, and copies them with a clone.
func TestShoppersReadDetails(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.draft(-time.Minute)
	detail, rules, shown := "/api/v1/admin/items/"+s.item+"/detail", "/api/v1/admin/activities/"+s.activity+"/rules", "/api/v1/items/"+s.item+"/detail"
	if r := d.do(http.StatusOK, http.MethodGet, detail, nil); r.text("description") != "" || len(r.body["images"].([]any)) != 0 {
		t.Errorf("before it is written: %s", r.raw)
	}
	tr := d.traced(func() {
		for range 2 { // the same again changes nothing
			d.do(http.StatusOK, http.MethodPut, detail, `{"description":"# Phone\n\nA *new* one.","images":["https://127.0.0.1/1.png","https://127.0.0.1/2.png"],"version":0}`)
			d.do(http.StatusOK, http.MethodPut, rules, `{"rules":"One each.","version":0}`)
		}
	})
	if tr.String() != "[item.detail activity.rules] and 0 events" {
		t.Errorf("writing left %v", tr)
	}
	// Another operator who read neither does not overwrite them.
	for path, body := range map[string]string{detail: `{"description":"mine","images":[],"version":0}`, rules: `{"rules":"mine","version":0}`} {
		if r := d.do(http.StatusConflict, http.MethodPut, path, body); r.text("code") != "stale-version" || r.body["version"] != 1.0 {
			t.Errorf("stale: %s", r.raw)
		}
	}
	d.as("", http.MethodGet, shown, nil).want(t, "of a draft", http.StatusNotFound, "")
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/publish", nil)
	d.forgetBrowse()
	r := d.as("", http.MethodGet, shown, nil)
	if r.text("description_html") != "<h1>Phone</h1>\n<p>A <em>new</em> one.</p>\n" || r.text("rules_html") != "<p>One each.</p>\n" || fmt.Sprint(r.body["images"]) != "[https://127.0.0.1/1.png https://127.0.0.1/2.png]" {
		t.Errorf("shoppers read %s", r.raw)
	}
	d.as("", http.MethodGet, shown, nil, "If-None-Match", r.header.Get("ETag")).want(t, "the same again", http.StatusNotModified, "")
	require.NoError(t, d.svc.advanceAll(t.Context()))
	d.do(http.StatusOK, http.MethodPut, detail, `{"description":"Black","images":[],"version":1}`)
	d.do(http.StatusOK, http.MethodPut, rules, `{"rules":"Two each.","version":1}`)
	if before, after := d.lastChange("activity.rules"); before["rules"] != "One each." || after["rules"] != "Two each." {
		t.Errorf("recorded %v and %v", before, after)
	}
	d.forgetBrowse()
	if r := d.as("", http.MethodGet, shown, nil); r.text("description_html") != "<p>Black</p>\n" || r.text("rules_html") != "<p>Two each.</p>\n" {
		t.Errorf("corrected, shoppers read %s", r.raw)
	}
	clone := d.do(http.StatusCreated, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/clone", `{"shift_days":1}`)
	if r := d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/items/"+clone.id(t, "sessions", 0, "items", 0, "id")+"/detail", nil); r.text("description") != "Black" || r.body["version"] != 1.0 {
		t.Errorf("the clone: %s", r.raw)
	}
	if r := d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+clone.id(t, "id")+"/rules", nil); r.text("rules") != "Two each." {
		t.Errorf("the clone: %s", r.raw)
	}
	many := strings.Repeat(`"https://127.0.0.1/x",`, 10)
	for _, bad := range []string{
		`{"description":"\u202e","images":[],"version":2}`, `{"description":"","images":["javascript:alert(1)"],"version":2}`, `{"description":"","images":[""],"version":2}`,
		`{"description":"","images":["https://a.example","https://a.example"],"version":2}`, `{"description":"","images":[` + strings.TrimSuffix(many, ",") + `],"version":2}`,
		`{"description":"` + strings.Repeat("字", maxTextRunes+1) + `","images":[],"version":2}`,
		`{"description":"` + strings.Repeat("|a", 200) + `\n` + strings.Repeat("|-", 200) + strings.Repeat(`\na`, 50) + `","images":[],"version":2}`,
	} {
		if r := d.do(http.StatusUnprocessableEntity, http.MethodPut, detail, bad); strings.Contains(string(r.raw), "version") {
			t.Errorf("%.60s: %s", bad, r.raw)
		}
	}
	d.as(auth.Viewer, http.MethodPut, detail, `{"description":"","images":[],"version":2}`).want(t, "a viewer writes", http.StatusForbidden, "")
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/terminate", nil)
	d.do(http.StatusConflict, http.MethodPut, detail, `{"description":"late","images":[],"version":2}`)
	d.do(http.StatusConflict, http.MethodPut, rules, `{"rules":"late","version":2}`)
}

// TestDetailsAreGivenAtCreation plans an activity with its rules and details in one
// request, and adds a session and an item with theirs.
func TestDetailsAreGivenAtCreation(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	written := func(text string) map[string]any { return map[string]any{"description": text, "images": []string{}} }
	var s sale
	tr := d.traced(func() {
		s = d.draft(time.Hour, func(a, _, i map[string]any) { a["rules"], i["detail"] = "One each.", written("A") })
	})
	if tr.String() != "[activity.create activity.rules session.create item.create item.detail] and 0 events" {
		t.Errorf("creating left %v", tr)
	}
	product := `"title":"x","stock":9,"list_price":{"amount":1,"currency":"CNY"},"sale_price":{"amount":1,"currency":"CNY"}`
	item := d.do(http.StatusCreated, http.MethodPost, "/api/v1/admin/items", `{"session_id":"`+s.session+`","sku":"b",`+product+`,"detail":{"description":"B","images":[]}}`)
	at := time.Now().Add(90 * time.Minute).UTC()
	session := d.do(http.StatusCreated, http.MethodPost, "/api/v1/admin/sessions", fmt.Sprintf(`{"activity_id":%q,"name":"Second","opens_at":%q,"closes_at":%q,
		"items":[{"sku":"plain",%s},{"sku":"c",%s,"detail":{"description":"C","images":[]}}]}`, s.activity, at.Format(time.RFC3339), at.Add(time.Minute).Format(time.RFC3339), product, product))
	for id, want := range map[string]string{s.item: "A1", item.text("id"): "B1", session.id(t, "items", 0, "id"): "0", session.id(t, "items", 1, "id"): "C1"} {
		if r := d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/items/"+id+"/detail", nil); fmt.Sprint(r.text("description"), r.body["version"]) != want {
			t.Errorf("%s: %s", want, r.raw)
		}
	}
	if r := d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+s.activity+"/rules", nil); r.text("rules") != "One each." || r.body["version"] != 1.0 {
		t.Errorf("rules: %s", r.raw)
	}
	bad := `,"detail":{"description":"\u202e","images":[]}`
	for path, body := range map[string]string{
		"items":      `{"session_id":"` + s.session + `","sku":"d",` + product + bad + `}`,
		"sessions":   fmt.Sprintf(`{"activity_id":%q,"name":"x","opens_at":%q,"closes_at":%q,"items":[{"sku":"d",%s}]}`, s.activity, at.Format(time.RFC3339), at.Add(time.Minute).Format(time.RFC3339), product+bad),
		"activities": fmt.Sprintf(`{"name":"x","starts_at":%q,"ends_at":%q,"rules":"\u202e"}`, at.Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339)),
	} {
		if r := d.do(http.StatusUnprocessableEntity, http.MethodPost, "/api/v1/admin/"+path, body); !strings.Contains(string(r.raw), "direction of writing") {
			t.Errorf("%s: %s", path, r.raw)
		}
	}
}
