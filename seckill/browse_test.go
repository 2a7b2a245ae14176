package seckill

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"stampede/inventory"
	"stampede/platform/ids"
)

// counter counts the statements of a pool.
type counter struct{ n atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted is a second pool on the same database that counts its statements.
func (y *yard) counted() (*pgxpool.Pool, *counter) {
	y.T.Helper()
	cfg, c := y.DB.Config(), new(counter)
	cfg.ConnConfig.Tracer = c
	pool, err := pgxpool.NewWithConfig(y.T.Context(), cfg)
	if err != nil {
		y.T.Fatal(err)
	}
	y.T.Cleanup(pool.Close)
	return pool, c
}

// TestBrowseNeedsNoPostgres asks for everything again and again, through caches
// that were just emptied, while Postgres is gone.
func TestBrowseNeedsNoPostgres(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	pool, queries := y.counted()
	d := y.desk(func(_ *Config, deps *Deps) { deps.DB = pool })
	s := d.publish(-time.Minute)
	if err := d.Stock.Load(t.Context(), s.stockItem(t, false).ID); err != nil {
		t.Fatal(err)
	}
	if err := d.svc.views.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	paths := []string{"/api/v1/sessions", "/api/v1/sessions/" + s.session, "/api/v1/items/" + s.item, "/api/v1/time"}
	before := queries.n.Load()
	for range 20 {
		for _, path := range paths {
			d.forgetBrowse()
			d.do(http.StatusOK, http.MethodGet, path, nil)
		}
		d.forgetBrowse()
		for _, path := range []string{"/api/v1/sessions/987654", "/api/v1/items/987654"} {
			if r := d.as("", http.MethodGet, path, nil); r.status != http.StatusNotFound {
				t.Fatalf("%s: %d %s", path, r.status, r.raw)
			}
		}
	}
	if n := queries.n.Load() - before; n != 0 {
		t.Errorf("browsing ran %d statements on Postgres", n)
	}
	pool.Close()
	for _, path := range paths {
		d.forgetBrowse()
		if r := d.as("", http.MethodGet, path, nil); r.status != http.StatusOK {
			t.Errorf("%s without Postgres: %d %s", path, r.status, r.raw)
		}
	}
}

// TestBrowseShowsTheItem looks at the whole answer once.
func TestBrowseShowsTheItem(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(-time.Minute, func(activity, _, item map[string]any) {
		activity["limit_per_user"], item["limit_per_user"], activity["payment_window_share"] = 5, 2, 0.5
	})
	if err := d.Stock.Load(t.Context(), s.stockItem(t, false).ID); err != nil {
		t.Fatal(err)
	}
	r := d.as("", http.MethodGet, "/api/v1/items/"+s.item, nil)
	for field, want := range map[string]any{
		"id": s.item, "session_id": s.session, "activity_id": s.activity, "sku": "phone", "title": "A phone", "status": "on_sale",
		"remaining": 10.0, "total": 10.0, "limit_per_user": 2.0, "one_item_per_user": false, "payment_window_seconds": 1800.0,
	} {
		if r.body[field] != want {
			t.Errorf("%s is %v, want %v", field, r.body[field], want)
		}
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", r.text("server_time")); err != nil {
		t.Error(err)
	}
	if r.header.Get("Cache-Control") != "public, max-age=1" || r.header.Get("ETag") == "" {
		t.Errorf("headers: %v", r.header)
	}
	again := d.as("", http.MethodGet, "/api/v1/items/"+s.item, nil, "If-None-Match", `"other", W/`+r.header.Get("ETag"))
	if again.status != http.StatusNotModified || len(again.raw) != 0 {
		t.Errorf("the same again: %d %s", again.status, again.raw)
	}
	// What is left changes, and so does the tag.
	if err := d.Stock.Reserve(t.Context(), s.stockItem(t, false), d.epoch(s), []inventory.Attempt{{User: 5, No: ids.NewFor(5), Quantity: 2}}, &inventory.Decision{}); err != nil {
		t.Fatal(err)
	}
	d.forgetBrowse()
	r = d.as("", http.MethodGet, "/api/v1/sessions/"+s.session, nil)
	item := r.body["items"].([]any)[0].(map[string]any)
	if item["remaining"] != 8.0 || r.text("status") != "on_sale" || r.body["item_count"] != 1.0 {
		t.Errorf("session: %s", r.raw)
	}
	again = d.as("", http.MethodGet, "/api/v1/items/"+s.item, nil, "If-None-Match", again.header.Get("ETag"))
	if again.status != http.StatusOK || again.body["remaining"] != 8.0 {
		t.Errorf("changed: %d %s", again.status, again.raw)
	}
}

func (d *desk) epoch(s sale) int64 {
	d.T.Helper()
	st, ok, err := d.Stock.State(d.T.Context(), s.stockItem(d.T, false))
	if err != nil || !ok {
		d.T.Fatal(ok, err)
	}
	return st.Epoch
}

// TestTheSessionList pages through sessions in every status.
func TestTheSessionList(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	if r := d.as("", http.MethodGet, "/api/v1/sessions", nil); r.status != 200 || !strings.HasPrefix(string(r.raw), `{"data":[],"next_cursor":"","server_time":"`) {
		t.Errorf("an empty shop: %d %s", r.status, r.raw)
	}
	late, draft, soon, open := d.publish(3*time.Hour), d.draft(time.Hour), d.publish(2*time.Hour), d.publish(-time.Minute)
	over := d.publish(-3*time.Hour, func(activity, session, _ map[string]any) {
		session["closes_at"], activity["ends_at"] = time.Now().Add(time.Hour).UTC(), time.Now().Add(2*time.Hour).UTC()
	})
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+over.activity+"/terminate", nil)
	d.forgetBrowse()
	var seen []string
	statuses := map[string]string{}
	for cursor, path := "-", "/api/v1/sessions?limit=2"; cursor != ""; path = "/api/v1/sessions?limit=2&cursor=" + cursor {
		r := d.do(http.StatusOK, http.MethodGet, path, nil)
		for _, row := range r.body["data"].([]any) {
			row := row.(map[string]any)
			seen = append(seen, row["id"].(string))
			statuses[row["id"].(string)] = row["status"].(string)
		}
		cursor = r.text("next_cursor")
	}
	want := []string{open.session, soon.session, late.session, over.session}
	if strings.Join(seen, " ") != strings.Join(want, " ") {
		t.Errorf("listed %v, want %v (draft is %s)", seen, want, draft.session)
	}
	if statuses[over.session] != shopEnded || statuses[open.session] != shopOnSale || statuses[late.session] != shopUpcoming {
		t.Errorf("statuses: %v", statuses)
	}
	d.clock.Advance(3 * time.Hour) // the open one closed two hours ago
	d.forgetBrowse()
	if r := d.do(http.StatusOK, http.MethodGet, "/api/v1/sessions", nil); strings.Contains(string(r.raw), `"id":"`+open.session+`"`) {
		t.Errorf("a session that closed long ago is listed: %s", r.raw)
	}
	if r := d.as("", http.MethodGet, "/api/v1/sessions?cursor=Zm9v", nil); r.status != 422 {
		t.Errorf("a cursor that is none: %d %s", r.status, r.raw)
	}
}

// TestRedisComesBackEmpty: the views are rebuilt, and until then a known
// session is restored by whoever asks for it.
func TestRedisComesBackEmpty(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(time.Hour)
	d.do(http.StatusOK, http.MethodGet, "/api/v1/sessions", nil)
	for _, path := range []string{"/api/v1/sessions/" + s.session, "/api/v1/items/" + s.item, "/api/v1/sessions"} {
		if err := d.Redis.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		d.forgetBrowse()
		if r := d.do(http.StatusOK, http.MethodGet, path, nil); !strings.Contains(string(r.raw), `"activity_name":"Sale"`) && !strings.Contains(string(r.raw), `"sku":"phone"`) {
			t.Errorf("%s: %s", path, r.raw)
		}
	}
	if err := d.Redis.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	defer d.Run(d.svc.runViews)()
	eventually(t, "the views come back by themselves", func() bool {
		_, whole, err := d.svc.views.headers(t.Context(), time.Now(), 10)
		return err == nil && whole
	})
}

// TestAnOlderViewNeverReplacesANewer writes the views of two moments in the
// wrong order.
func TestAnOlderViewNeverReplacesANewer(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(time.Hour)
	id := s.stockItem(t, false).ActivityID
	old := d.tree(id)
	r := d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+s.activity, nil)
	d.do(http.StatusOK, http.MethodPatch, "/api/v1/admin/activities/"+s.activity, map[string]any{"version": r.body["version"], "name": "Newer"})
	second := d.do(http.StatusCreated, http.MethodPost, "/api/v1/admin/sessions", map[string]any{
		"activity_id": s.activity, "name": "Second", "opens_at": time.Now().Add(2 * time.Hour).UTC(), "closes_at": time.Now().Add(150 * time.Minute).UTC(),
	}).text("id")
	if err := d.svc.views.write(t.Context(), &old); err != nil {
		t.Fatal(err)
	}
	d.forgetBrowse()
	if r := d.do(http.StatusOK, http.MethodGet, "/api/v1/sessions/"+s.session, nil); r.text("activity_name") != "Newer" {
		t.Errorf("the older view is back: %s", r.raw)
	}
	d.do(http.StatusOK, http.MethodGet, "/api/v1/sessions/"+second, nil)
	d.do(204, http.MethodDelete, "/api/v1/admin/sessions/"+second, nil)
	newer := d.tree(id)
	d.do(204, http.MethodDelete, "/api/v1/admin/activities/"+s.activity, nil)
	if err := d.svc.views.write(t.Context(), &newer); err != nil {
		t.Fatal(err)
	}
	d.forgetBrowse()
	for _, session := range []string{s.session, second} {
		if r := d.as("", http.MethodGet, "/api/v1/sessions/"+session, nil); r.status != 404 {
			t.Errorf("a deleted session came back: %d %s", r.status, r.raw)
		}
	}
}

func (d *desk) tree(activityID int64) branch {
	d.T.Helper()
	row, err := d.queries().Activity(d.T.Context(), activityID)
	if err != nil {
		d.T.Fatal(err)
	}
	tree, err := readTree(d.T.Context(), d.queries(), []activityRow{row})
	if err != nil {
		d.T.Fatal(err)
	}
	return tree[0]
}

// TestItemStatus goes through what shoppers are told, on any figures.
func TestItemStatus(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Now()
		opens := now.Add(time.Duration(rapid.IntRange(-100, 100).Draw(t, "opens")) * time.Second)
		s := storedSession{OpensAt: timestamp(opens), ClosesAt: timestamp(opens.Add(50 * time.Second)), Paused: rapid.Bool().Draw(t, "paused"), Over: rapid.Bool().Draw(t, "over")}
		total := rapid.Int64Range(1, 10).Draw(t, "total")
		committed := rapid.Int64Range(0, total).Draw(t, "committed")
		remaining := rapid.Int64Range(0, total-committed).Draw(t, "remaining")
		st := inventory.State{Total: total, Committed: committed, Remaining: remaining}
		loaded := rapid.Bool().Draw(t, "loaded")
		v := shopItemOf(&s, &storedItem{OnSale: int32(total)}, st, loaded, now)
		live := !s.Over && !s.Paused && !now.Before(opens) && now.Before(time.Time(s.ClosesAt))
		switch v.Status {
		case shopOnSale:
			if !live || !loaded || remaining == 0 || v.Remaining == nil || *v.Remaining != remaining {
				t.Fatalf("on sale: %+v", v)
			}
		case shopSoldOut: // final words: nobody holds anything that could come back
			if !live || !loaded || committed != total {
				t.Fatalf("sold out with %d of %d paid for", committed, total)
			}
		case shopAllHeld:
			if !live || !loaded || remaining != 0 || committed == total {
				t.Fatalf("all held: %+v", v)
			}
		case shopPreparing:
			if !live || loaded || v.Remaining != nil {
				t.Fatalf("preparing: %+v", v)
			}
		case shopPaused, shopUpcoming, shopEnded:
			if live {
				t.Fatalf("%s while it is on sale", v.Status)
			}
		default:
			t.Fatalf("status %q", v.Status)
		}
	})
}

// TestNothingIsCountedOfAnUnlimitedItem: null is no number, and 0 would say
// that none is left.
func TestNothingIsCountedOfAnUnlimitedItem(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(-time.Minute, func(_, _, item map[string]any) { item["unlimited"], item["stock"] = true, 0 })
	figures := func(want string) {
		t.Helper()
		d.forgetBrowse()
		r := d.as("", http.MethodGet, "/api/v1/items/"+s.item, nil)
		for _, field := range []string{"total", "remaining"} {
			if v, ok := r.body[field]; !ok || v != nil {
				t.Errorf("%s is %v: %s", field, v, r.raw)
			}
		}
		if r.body["unlimited"] != true || r.text("status") != want {
			t.Errorf("want %s: %s", want, r.raw)
		}
	}
	figures(shopPreparing)
	if err := d.Stock.Load(t.Context(), s.stockItem(t, false).ID); err != nil {
		t.Fatal(err)
	}
	figures(shopOnSale)
}

// TestBrowseIsDocumented: the document of a browse answer has what the answer
// has, and nothing else.
func TestBrowseIsDocumented(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(time.Hour)
	doc := d.rt.API.Huma.OpenAPI()
	for path, url := range map[string]string{
		"/api/v1/sessions": "/api/v1/sessions", "/api/v1/sessions/{id}": "/api/v1/sessions/" + s.session, "/api/v1/items/{id}": "/api/v1/items/" + s.item,
	} {
		schema := doc.Paths[path].Get.Responses["200"].Content["application/json"].Schema
		r := d.do(http.StatusOK, http.MethodGet, url, nil)
		for field := range r.body {
			if schema.Properties[field] == nil {
				t.Errorf("%s answers with %s, which is not documented", path, field)
			}
		}
		for _, field := range schema.Required {
			if _, ok := r.body[field]; !ok {
				t.Errorf("%s is documented to answer with %s and does not: %s", path, field, r.raw)
			}
		}
	}
}
