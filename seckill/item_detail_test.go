package seckill

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
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
			d.do(http.StatusOK, http.MethodPut, detail, `{"description":"# Phone\n\nA *new* one.","images":["https://img.example/1.png","https://img.example/2.png"]}`)
			d.do(http.StatusOK, http.MethodPut, rules, `{"rules":"One each."}`)
		}
	})
	if tr.String() != "[item.detail activity.rules] and 0 events" {
		t.Errorf("writing left %v", tr)
	}
	if r := d.as("", http.MethodGet, shown, nil); r.status != http.StatusNotFound {
		t.Errorf("of a draft: %d %s", r.status, r.raw)
	}
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/publish", nil)
	d.forgetBrowse()
	r := d.as("", http.MethodGet, shown, nil)
	if r.text("description_html") != "<h1>Phone</h1>\n<p>A <em>new</em> one.</p>\n" || r.text("rules_html") != "<p>One each.</p>\n" || fmt.Sprint(r.body["images"]) != "[https://img.example/1.png https://img.example/2.png]" {
		t.Errorf("shoppers read %s", r.raw)
	}
	if again := d.as("", http.MethodGet, shown, nil, "If-None-Match", r.header.Get("ETag")); again.status != http.StatusNotModified {
		t.Errorf("the same again: %d", again.status)
	}
	if err := d.svc.advanceAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.do(http.StatusOK, http.MethodPut, detail, `{"description":"Black","images":[]}`)
	d.do(http.StatusOK, http.MethodPut, rules, `{"rules":"Two each."}`)
	if before, after := d.lastChange("activity.rules"); before["rules"] != "One each." || after["rules"] != "Two each." {
		t.Errorf("recorded %v and %v", before, after)
	}
	d.forgetBrowse()
	if r := d.as("", http.MethodGet, shown, nil); r.text("description_html") != "<p>Black</p>\n" || r.text("rules_html") != "<p>Two each.</p>\n" {
		t.Errorf("corrected, shoppers read %s", r.raw)
	}
	clone := d.do(http.StatusCreated, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/clone", `{"shift_days":1}`)
	if r := d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/items/"+clone.id(t, "sessions", 0, "items", 0, "id")+"/detail", nil); r.text("description") != "Black" {
		t.Errorf("the clone: %s", r.raw)
	}
	if r := d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+clone.id(t, "id")+"/rules", nil); r.text("rules") != "Two each." {
		t.Errorf("the clone: %s", r.raw)
	}
	many := strings.Repeat(`"https://img.example/x",`, 10)
	for _, bad := range []string{
		`{"description":"\u202e","images":[]}`, `{"description":"","images":["javascript:alert(1)"]}`, `{"description":"","images":[""]}`,
		`{"description":"","images":["https://a.example","https://a.example"]}`, `{"description":"","images":[` + strings.TrimSuffix(many, ",") + `]}`,
		`{"description":"` + strings.Repeat("字", maxTextRunes+1) + `","images":[]}`,
	} {
		d.do(http.StatusUnprocessableEntity, http.MethodPut, detail, bad)
	}
	if r := d.as(auth.Viewer, http.MethodPut, detail, `{"description":"","images":[]}`); r.status != http.StatusForbidden {
		t.Errorf("a viewer writes: %d", r.status)
	}
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/terminate", nil)
	d.do(http.StatusConflict, http.MethodPut, detail, `{"description":"late","images":[]}`)
	d.do(http.StatusConflict, http.MethodPut, rules, `{"rules":"late"}`)
}
