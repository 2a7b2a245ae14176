package change

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
)

// TestShoppersReadDetails writes a description, pictures and rules, corrects them while
// the sale runs, and copies them with a clone.
func TestShoppersReadDetails(t *testing.T) {
	t.Parallel()
	var asked *atomic.Int64
	d := setup(t).instance(func(_ *plan.Config, deps *Deps) { deps.DB, asked = seckilltest.Statements(t, deps.DB) })
	s := d.Draft(-time.Minute)
	detail, rules, shown := "/api/v1/admin/items/"+s.Item+"/detail", "/api/v1/admin/activities/"+s.Activity+"/rules", "/api/v1/items/"+s.Item+"/detail"
	if r := d.Do(http.StatusOK, http.MethodGet, detail, nil); r.Text("description") != "" || len(r.Doc["images"].([]any)) != 0 {
		t.Errorf("before it is written: %s", r.Raw)
	}
	for path, want := range map[string]int64{detail: 2, "/api/v1/admin/items/" + s.Item + "/admission": 1} { // its reservations, which may be many, are not counted
		asked.Store(0)
		d.Do(http.StatusOK, http.MethodGet, path, nil)
		require.Equal(t, "statements of "+path, asked.Load(), want)
	}
	d.leaves("writing", "[item.detail activity.rules] and 0 events", func() {
		for range 2 { // the same again changes nothing
			d.Do(http.StatusOK, http.MethodPut, detail, `{"description":"# Phone\n\nA *new* one.","images":["https://127.0.0.1/1.png","https://127.0.0.1/2.png"],"version":0}`)
			d.Do(http.StatusOK, http.MethodPut, rules, `{"rules":"One each.","version":0}`)
		}
	})
	// Another operator who read neither does not overwrite them.
	for path, body := range map[string]string{detail: `{"description":"mine","images":[],"version":0}`, rules: `{"rules":"mine","version":0}`} {
		r := d.As(auth.Operator, http.MethodPut, path, body)
		r.Want(t, "stale", http.StatusConflict, "stale-version")
		require.Equal(t, "version", r.Doc["version"], 1.0)
	}
	d.As("", http.MethodGet, shown, nil).Want(t, "of a draft", http.StatusNotFound, "")
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/publish", nil)
	d.forgetBrowse()
	r := d.As("", http.MethodGet, shown, nil)
	if r.Text("description_html") != "<h1>Phone</h1>\n<p>A <em>new</em> one.</p>\n" || r.Text("rules_html") != "<p>One each.</p>\n" || fmt.Sprint(r.Doc["images"]) != "[https://127.0.0.1/1.png https://127.0.0.1/2.png]" {
		t.Errorf("shoppers read %s", r.Raw)
	}
	d.As("", http.MethodGet, shown, nil, "If-None-Match", r.Header.Get("ETag")).Want(t, "the same again", http.StatusNotModified, "")
	require.NoError(t, d.svc.advanceAll(t.Context()))
	d.Do(http.StatusOK, http.MethodPut, detail, `{"description":"Black","images":[],"version":1}`)
	d.Do(http.StatusOK, http.MethodPut, rules, `{"rules":"Two each.","version":1}`)
	d.recorded("activity.rules", "rules", "One each.", "Two each.")
	d.forgetBrowse()
	r = d.As("", http.MethodGet, shown, nil)
	require.Equal(t, "what shoppers read", r.Text("description_html")+r.Text("rules_html"), "<p>Black</p>\n<p>Two each.</p>\n")
	clone := d.Do(http.StatusCreated, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/clone", `{"shift_days":1}`)
	r = d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/items/"+clone.ID(t, "sessions", 0, "items", 0, "id")+"/detail", nil)
	require.Equal(t, "the clone", []any{r.Doc["description"], r.Doc["version"]}, []any{"Black", 1.0})
	r = d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+clone.ID(t, "id")+"/rules", nil)
	require.Equal(t, "the clone", r.Text("rules"), "Two each.")
	many := strings.Repeat(`"https://127.0.0.1/x",`, 10)
	for _, bad := range []string{
		`{"description":"\u202e","images":[],"version":2}`, `{"description":"","images":["javascript:alert(1)"],"version":2}`, `{"description":"","images":[""],"version":2}`,
		`{"description":"","images":["https://a.example","https://a.example"],"version":2}`, `{"description":"","images":[` + strings.TrimSuffix(many, ",") + `],"version":2}`,
		`{"description":"` + strings.Repeat("字", plan.MaxTextRunes+1) + `","images":[],"version":2}`,
		`{"description":"` + strings.Repeat("|a", 200) + `\n` + strings.Repeat("|-", 200) + strings.Repeat(`\na`, 50) + `","images":[],"version":2}`,
	} {
		if r := d.Do(http.StatusUnprocessableEntity, http.MethodPut, detail, bad); strings.Contains(string(r.Raw), "version") {
			t.Errorf("%.60s: %s", bad, r.Raw)
		}
	}
	d.As(auth.Viewer, http.MethodPut, detail, `{"description":"","images":[],"version":2}`).Want(t, "a viewer writes", http.StatusForbidden, "")
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/terminate", nil)
	d.Do(http.StatusConflict, http.MethodPut, detail, `{"description":"late","images":[],"version":2}`)
	d.Do(http.StatusConflict, http.MethodPut, rules, `{"rules":"late","version":2}`)
}

// TestDetailsAreGivenAtCreation plans an activity with its rules and details in one
// request, and adds a session and an item with theirs.
func TestDetailsAreGivenAtCreation(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	written := func(text string) map[string]any { return map[string]any{"description": text, "images": []string{}} }
	var s seckilltest.Sale
	d.leaves("creating", "[activity.create activity.rules session.create item.create item.detail] and 0 events", func() {
		s = d.Draft(time.Hour, func(a, _, i map[string]any) { a["rules"], i["detail"] = "One each.", written("A") })
	})
	product := `"title":"x","stock":9,"list_price":{"amount":1,"currency":"CNY"},"sale_price":{"amount":1,"currency":"CNY"}`
	item := d.Do(http.StatusCreated, http.MethodPost, "/api/v1/admin/items", `{"session_id":"`+s.Session+`","sku":"b",`+product+`,"detail":{"description":"B","images":[]}}`)
	at := time.Now().Add(90 * time.Minute).UTC()
	session := d.Do(http.StatusCreated, http.MethodPost, "/api/v1/admin/sessions", fmt.Sprintf(`{"activity_id":%q,"name":"Second","opens_at":%q,"closes_at":%q,
		"items":[{"sku":"plain",%s},{"sku":"c",%s,"detail":{"description":"C","images":[]}}]}`, s.Activity, at.Format(time.RFC3339), at.Add(time.Minute).Format(time.RFC3339), product, product))
	for id, want := range map[string]string{s.Item: "A1", item.Text("id"): "B1", session.ID(t, "items", 0, "id"): "0", session.ID(t, "items", 1, "id"): "C1"} {
		r := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/items/"+id+"/detail", nil)
		require.Equal(t, "the detail", fmt.Sprint(r.Text("description"), r.Doc["version"]), want)
	}
	r := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+s.Activity+"/rules", nil)
	require.Equal(t, "the rules", []any{r.Doc["rules"], r.Doc["version"]}, []any{"One each.", 1.0})
	bad := `,"detail":{"description":"\u202e","images":[]}`
	for path, body := range map[string]string{
		"items":      `{"session_id":"` + s.Session + `","sku":"d",` + product + bad + `}`,
		"sessions":   fmt.Sprintf(`{"activity_id":%q,"name":"x","opens_at":%q,"closes_at":%q,"items":[{"sku":"d",%s}]}`, s.Activity, at.Format(time.RFC3339), at.Add(time.Minute).Format(time.RFC3339), product+bad),
		"activities": fmt.Sprintf(`{"name":"x","starts_at":%q,"ends_at":%q,"rules":"\u202e"}`, at.Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339)),
	} {
		d.As(auth.Operator, http.MethodPost, "/api/v1/admin/"+path, body).Want(t, path, http.StatusUnprocessableEntity, "", "direction of writing")
	}
}
