package change

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
)

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
		d.As(auth.Viewer, http.MethodGet, "/api/v1/admin/"+path, nil).Want(t, path+", invalid cursor", 422, "invalid")
	}
}

// TestInvalidDraftsNameTheField breaks one thing of a valid campaign at a time
// and expects the field and the rule in the answer.
func TestInvalidDraftsNameTheField(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	price := func(amount any, currency string) map[string]any {
		return map[string]any{"amount": amount, "currency": currency}
	}
	now := time.Now().UTC()
	const s, i = "body.sessions[0]", "body.sessions[0].items[0]"
	for _, c := range []struct {
		name     string
		change   func(activity, session, item map[string]any)
		location string
		message  string
	}{
		{"no name", func(a, _, _ map[string]any) { a["name"] = "" }, "body.name", "1 to 120 characters"},
		{"blank name", func(a, _, _ map[string]any) { a["name"] = "  " }, "body.name", "no visible character"},
		{"long name", func(a, _, _ map[string]any) { a["name"] = strings.Repeat("长", 121) }, "body.name", "1 to 120 characters"},
		{"line break", func(a, _, _ map[string]any) { a["name"] = "a\nb" }, "body.name", "control character"},
		{"ends first", func(a, _, _ map[string]any) { a["ends_at"] = now.Add(-100 * time.Hour) }, "body.ends_at", "ends after it starts"},
		{"too long", func(a, _, _ map[string]any) { a["ends_at"] = now.Add(400 * 24 * time.Hour) }, "body.ends_at", "366 days"},
		{"the year 1", func(a, _, _ map[string]any) { a["starts_at"] = "0001-01-01T00:00:00Z" }, "body.starts_at", "2000 to 2199"},
		{"no limit", func(a, _, _ map[string]any) { a["limit_per_user"] = 1001 }, "body.limit_per_user", "at most 1000"},
		{"short window", func(a, _, _ map[string]any) { a["payment_window_seconds"] = 9 }, "body.payment_window_seconds", "at least 10"},
		{"zero share", func(a, _, _ map[string]any) { a["payment_window_share"] = 0 }, "body.payment_window_share", "above 0"},
		{"both windows", func(a, _, _ map[string]any) { a["payment_window_share"], a["payment_window_seconds"] = 0.5, 60 }, "body.payment_window_share", "not both"},
		{"tiny share", func(a, _, _ map[string]any) { a["payment_window_share"] = 0.001 }, s + ".closes_at", "below 10 seconds"},
		{"freight without delivery", func(a, _, _ map[string]any) {
			a["checkout"] = map[string]any{"ways": []string{"pickup"}, "freight": map[string]any{"amount": 8, "currency": "CNY"}}
		}, "body.checkout.freight", "charged for delivery only"},
		{"freight without an address", func(a, _, _ map[string]any) {
			a["checkout"] = map[string]any{"ways": []string{"delivery"}, "freight": map[string]any{"amount": 8, "currency": "CNY"}}
		}, "body.checkout.address", "needs an address"},
		{"free from nothing", func(a, _, _ map[string]any) {
			a["checkout"] = map[string]any{"ways": []string{"delivery"}, "free_from": map[string]any{"amount": 8, "currency": "CNY"}}
		}, "body.checkout.free_from", "needs freight to be charged"},
		{"free from another currency", func(a, _, _ map[string]any) {
			a["checkout"] = map[string]any{"ways": []string{"delivery"}, "address": "required", "freight": price(8, "CNY"), "free_from": price(800, "EUR")}
		}, "body.checkout.free_from", "in one currency"},
		{"freight without a currency", func(a, _, _ map[string]any) {
			a["checkout"] = map[string]any{"ways": []string{"delivery"}, "address": "required", "freight": price(8, "rmb")}
		}, "body.checkout.freight.currency", "of the form"},
		{"a way twice", func(a, _, _ map[string]any) { a["checkout"] = map[string]any{"ways": []string{"pickup", "pickup"}} }, "body.checkout.ways", "listed once"},
		{"an address for a pickup", func(a, _, _ map[string]any) {
			a["checkout"] = map[string]any{"ways": []string{"pickup"}, "address": "required"}
		}, "body.checkout.address", "only with delivery"},
		{"unknown field", func(a, _, _ map[string]any) { a["nonsense"] = 1 }, "body.nonsense", "is not a known field"},
		{"session outside", func(a, _, _ map[string]any) { a["starts_at"] = now.Add(90 * time.Minute) }, s + ".opens_at", "no earlier than its activity"},
		{"session late", func(_, s, _ map[string]any) { s["closes_at"] = now.Add(90 * time.Hour) }, s + ".closes_at", "no later than its activity"},
		{"session short", func(_, s, _ map[string]any) { s["closes_at"] = s["opens_at"].(time.Time).Add(time.Second) }, s + ".closes_at", "at least 10 seconds"},
		{"session ends first", func(_, s, _ map[string]any) { s["closes_at"] = s["opens_at"].(time.Time).Add(-time.Minute) }, s + ".closes_at", "ends after it starts"},
		{"no SKU", func(_, _, i map[string]any) { i["sku"] = "" }, i + ".sku", "1 to 64"},
		{"no title", func(_, _, i map[string]any) { i["title"] = "" }, i + ".title", "1 to 120"},
		{"script image", func(_, _, i map[string]any) { i["image_url"] = "javascript:alert(1)" }, i + ".image_url", "starts with https://"},
		{"a picture over http", func(_, _, i map[string]any) { i["image_url"] = "http://img.example/p.png" }, i + ".image_url", "pages block http://"},
		{"a picture of another site", func(_, _, i map[string]any) { i["image_url"] = "//img.example/p.png" }, i + ".image_url", "starts with https://"},
		{"hostless image", func(_, _, i map[string]any) { i["image_url"] = "https:///p.png" }, i + ".image_url", "starts with https://"},
		{"image with password", func(_, _, i map[string]any) { i["image_url"] = "https://u:p@h/p.png" }, i + ".image_url", "starts with https://"},
		{"above the list price", func(_, _, i map[string]any) { i["sale_price"] = price(20001, "CNY") }, i + ".sale_price.amount", "no more than the list price"},
		{"negative price", func(_, _, i map[string]any) { i["sale_price"] = price(-1, "CNY") }, i + ".sale_price.amount", "at least 0"},
		{"price with decimals", func(_, _, i map[string]any) { i["sale_price"] = price(1.5, "CNY") }, i + ".sale_price.amount", "a whole number"},
		{"price in text", func(_, _, i map[string]any) { i["sale_price"] = price("1", "CNY") }, i + ".sale_price.amount", "a whole number"},
		{"two currencies", func(_, _, i map[string]any) { i["sale_price"] = price(1, "EUR") }, i + ".sale_price.currency", "same currency"},
		{"no currency", func(_, _, i map[string]any) { i["list_price"] = price(1, "rmb") }, i + ".list_price.currency", "of the form"},
		{"no stock", func(_, _, i map[string]any) { i["stock"] = 0 }, i + ".stock", "at least one unit"},
		{"too much stock", func(_, _, i map[string]any) { i["stock"] = 10_000_001 }, i + ".stock", "at most 10000000"},
		{"unlimited with stock", func(_, _, i map[string]any) { i["unlimited"] = true }, i + ".stock", "unlimited item has no stock"},
	} {
		now := time.Now().UTC()
		item := map[string]any{"sku": "a", "title": "A", "list_price": price(20000, "CNY"), "sale_price": price(9900, "CNY"), "stock": 10}
		session := map[string]any{"name": "First", "opens_at": now.Add(time.Hour), "closes_at": now.Add(2 * time.Hour)}
		activity := map[string]any{"name": "Sale", "starts_at": now, "ends_at": now.Add(3 * time.Hour)}
		c.change(activity, session, item)
		session["items"], activity["sessions"] = []any{item}, []any{session}
		d.leaves(c.name, nothing, func() {
			r := d.As(auth.Operator, http.MethodPost, "/api/v1/admin/activities", activity)
			found := false
			errs, _ := r.Doc["errors"].([]any)
			for _, e := range errs {
				e := e.(map[string]any)
				found = found || e["location"] == c.location && strings.Contains(e["message"].(string), c.message)
			}
			if r.Status != http.StatusUnprocessableEntity || r.Text("code") != "invalid" || !found {
				t.Errorf("%s: %d %s, want %s: …%s…", c.name, r.Status, r.Raw, c.location, c.message)
			}
		})
	}
	require.Equal(t, "activities created by invalid drafts", d.Number(`SELECT count(*) FROM seckill.activities`), 0)
}

// TestPublicationChecks lists what prevents a draft from being published.
func TestPublicationChecks(t *testing.T) {
	t.Parallel()
	d := setup(t).instance(func(cfg *plan.Config, _ *Deps) { cfg.ShortestPayWindow = time.Minute })
	for name, c := range map[string]struct {
		spoil func(s seckilltest.Sale)
		want  string
	}{
		"no item":    {func(s seckilltest.Sale) { d.Do(204, http.MethodDelete, "/api/v1/admin/items/"+s.Item, nil) }, "has no item"},
		"no session": {func(s seckilltest.Sale) { d.Do(204, http.MethodDelete, "/api/v1/admin/sessions/"+s.Session, nil) }, "needs a session"},
		"it is over": {func(s seckilltest.Sale) {
			d.SQL(`UPDATE seckill.sessions SET opens_at = now() - interval '1 day', closes_at = now() WHERE id = $1`, s.Session)
		}, "already over"},
		"short to pay": {func(s seckilltest.Sale) {
			d.Do(200, http.MethodPatch, "/api/v1/admin/activities/"+s.Activity, `{"version":1,"payment_window_seconds":30}`)
		}, "needs 1m0s"},
		"no verifier": {func(s seckilltest.Sale) {
			d.Do(200, http.MethodPatch, "/api/v1/admin/activities/"+s.Activity, `{"version":1,"human_check":"verifier"}`)
		}, "No verifier is set up"},
	} {
		s := d.Draft(time.Hour)
		c.spoil(s)
		d.leaves(name, nothing, func() {
			d.As(auth.Operator, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/publish", nil).Want(t, name, 422, "", c.want)
		})
	}
}

// TestEditsNeedTheVersionTheyRead checks that of two edits based on one read,
// the second is refused and the answer gives the current version.
func TestEditsNeedTheVersionTheyRead(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Draft(time.Hour)
	for path, body := range map[string]string{
		"activities/" + s.Activity: `"name":"B"`, "sessions/" + s.Session: `"name":"B"`, "items/" + s.Item: `"title":"B"`,
	} {
		path = "/api/v1/admin/" + path
		r := d.Do(http.StatusOK, http.MethodPatch, path, `{"version":1,`+body+`}`)
		require.Equal(t, path+" after an edit", r.Doc["version"], 2.0)
		d.leaves("a stale "+path, nothing, func() { r = d.As(auth.Operator, http.MethodPatch, path, `{"version":1,`+body+`}`) })
		r.Want(t, path+" with a stale version", 409, "stale-version")
		require.Equal(t, path+" with a stale version", r.Doc["version"], 2.0)
	}
}

// TestPatchChangesOnlyWhatItNames compares a row before and after.
func TestPatchChangesOnlyWhatItNames(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Draft(time.Hour)
	path := "/api/v1/admin/items/" + s.Item
	before := d.Do(http.StatusOK, http.MethodGet, path, nil).Doc
	after := d.Do(http.StatusOK, http.MethodPatch, path, `{"version":1,"spec":"red","limit_per_user":2}`).Doc
	want := maps.Clone(before)
	delete(want, "reservations") // counted when items are read
	want["spec"], want["limit_per_user"], want["version"], want["updated_at"] = "red", 2.0, 2.0, after["updated_at"]
	if fmt.Sprint(after) != fmt.Sprint(want) {
		t.Errorf("after: %v\nwant:  %v", after, want)
	}
	path = "/api/v1/admin/activities/" + s.Activity
	r := d.Do(http.StatusOK, http.MethodPatch, path, `{"version":1,"payment_window_share":0.5}`)
	require.Equal(t, "the share", r.Doc["payment_window_share"], 0.5)
	r = d.Do(http.StatusOK, http.MethodPatch, path, `{"version":2,"payment_window_seconds":60}`)
	require.Equal(t, "duration in place of the share", []any{r.Doc["payment_window_share"], r.Doc["payment_window_seconds"]}, []any{nil, 60.0})
	r = d.As(auth.Operator, http.MethodPatch, path, map[string]any{"version": 3, "ends_at": time.Now().Add(90 * time.Minute).UTC()})
	r.Want(t, "an end before the session's", 422, "", "Session "+s.Session+" would break a rule")
	same := `{"session_id":"` + s.Session + `","sku":"phone","title":"B","list_price":{"amount":1,"currency":"CNY"},"sale_price":{"amount":1,"currency":"CNY"},"stock":1}`
	d.As(auth.Operator, http.MethodPost, "/api/v1/admin/items", same).Want(t, "an SKU twice in a session", 422, "", "body.sku")
}
