package change

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
)

// rush sends one attempt of a user past the door, and returns the gate and, if that is
// open, the verdict.
func (d *instance) rush(item inventory.Item, user int64) string {
	d.T.Helper()
	var into inventory.Decision
	epoch := d.Number(`SELECT epoch FROM inventory.stock WHERE item_id = $1`, item.ID)
	require.NoError(d.T, d.Stock.Reserve(d.T.Context(), item, epoch, []inventory.Attempt{{User: user, No: ids.NewFor(user), Quantity: 1}}, &into))
	if into.Gate != inventory.Open {
		return fmt.Sprint("gate ", into.Gate)
	}
	return fmt.Sprint(into.Results[0].Verdict)
}

// followsPlan expects the stock rows to be as planned and the books to agree.
func (d *instance) followsPlan(after string, items ...inventory.Item) {
	d.T.Helper()
	d.offPlan(after, 0)
	for _, item := range items {
		if row, _, err := d.Stock.Book(d.T.Context(), item.ID); err != nil || row.Difference != 0 {
			d.T.Errorf("%s: %+v, %v", after, row, err)
		}
	}
}

// recorded requires what the newest record of an action says of a field.
func (d *instance) recorded(action, field string, before, after any) {
	d.T.Helper()
	all, _ := d.Recorded()
	newest := slices.IndexFunc(all, func(e audit.Entry) bool { return e.Action == action })
	if newest < 0 {
		d.T.Fatalf("no record of %s", action)
	}
	var detail struct{ Before, After map[string]any }
	require.NoError(d.T, json.Unmarshal(all[newest].Detail, &detail))
	require.Equal(d.T, action, []any{detail.Before[field], detail.After[field]}, []any{before, after})
}

// TestPauseOneItem pauses one item of three: its attempts are refused and shoppers see
// why, the others sell, and it stays paused through a pause of the activity and a Load.
func TestPauseOneItem(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Draft(-time.Minute)
	items := []inventory.Item{s.StockItem(t, false)}
	for _, sku := range []string{"b", "c"} {
		r := d.Do(http.StatusCreated, http.MethodPost, "/api/v1/admin/items", `{"session_id":"`+s.Session+`","sku":"`+sku+`","title":"x","stock":9,
			"list_price":{"amount":1,"currency":"CNY"},"sale_price":{"amount":1,"currency":"CNY"}}`)
		items = append(items, seckilltest.Sale{Activity: s.Activity, Item: r.ID(t, "id")}.StockItem(t, false))
	}
	activity := "/api/v1/admin/activities/" + s.Activity
	d.Do(http.StatusOK, http.MethodPost, activity+"/publish", nil)
	for _, item := range items {
		require.NoError(t, d.Stock.Load(t.Context(), item.ID))
	}
	user := int64(0)
	must := func(after string, want ...string) {
		t.Helper()
		d.forgetBrowse()
		session := d.Do(http.StatusOK, http.MethodGet, "/api/v1/sessions/"+s.Session, nil)
		for i, item := range items {
			user++
			seen := session.Doc["items"].([]any)[i].(map[string]any)["status"]
			require.Equal(t, fmt.Sprint(after, ": item ", i), fmt.Sprint(d.rush(item, user), ", ", seen), want[i])
			alone := d.Do(http.StatusOK, http.MethodGet, fmt.Sprint("/api/v1/items/", item.ID), nil)
			require.Equal(t, fmt.Sprint(after, ": item ", i, " alone"), alone.Doc["status"], seen)
		}
		d.followsPlan(after)
	}
	selling, stopped := fmt.Sprint(inventory.Granted, ", on_sale"), fmt.Sprint("gate ", inventory.Paused, ", paused")
	path := fmt.Sprint("/api/v1/admin/items/", items[1].ID)
	var r seckilltest.Reply
	d.leaves("a pause", "[activity.start item.pause] and 2 events", func() { r = d.Do(http.StatusOK, http.MethodPost, path+"/pause", nil) })
	require.Equal(t, "paused", r.Doc["paused"], true)
	must("paused", selling, stopped, selling)
	d.leaves("pausing again", nothing, func() { d.Do(http.StatusOK, http.MethodPost, path+"/pause", nil) })
	d.recorded("item.pause", "paused", false, true)
	d.Do(http.StatusOK, http.MethodPost, activity+"/pause", nil)
	must("all paused", stopped, stopped, stopped)
	d.Do(http.StatusOK, http.MethodPost, activity+"/resume", nil)
	must("all but one resumed", selling, stopped, selling)
	require.NoError(t, d.Stock.Load(t.Context(), items[1].ID))
	must("loaded again", selling, stopped, selling)
	d.SQL(`UPDATE inventory.stock SET paused = false WHERE item_id = $1`, items[1].ID)
	d.offPlan("a pause that the stock row lost", 1)
	d.SQL(`UPDATE inventory.stock SET paused = true WHERE item_id = $1`, items[1].ID)
	d.Do(http.StatusOK, http.MethodPost, path+"/resume", nil)
	must("resumed", selling, selling, selling)
	d.As(auth.Viewer, http.MethodPost, path+"/pause", nil).Want(t, "a viewer pauses an item", http.StatusForbidden, "")
}

// TestAPausedItemStaysPausedWhenEdited lowers the stock of a paused item before its
// opening, which replaces its stock row.
func TestAPausedItemStaysPausedWhenEdited(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(time.Hour)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/pause", nil)
	d.Do(http.StatusOK, http.MethodPatch, "/api/v1/admin/items/"+s.Item, `{"version":1,"stock":4}`)
	d.followsPlan("edited")
	require.Equal(t, "paused stock rows", d.Number(`SELECT count(*) FROM inventory.stock WHERE item_id = $1 AND paused AND total = 4`, s.Item), 1)
}

// TestStockGoesDown takes units off a running sale and writes some off: no more than no
// shopper holds, also those that Redis has granted and no order shows yet, once per key, and
// nothing that left is granted.
func TestStockGoesDown(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(-time.Minute)
	item := s.StockItem(t, false)
	require.NoError(t, d.Stock.Load(t.Context(), item.ID))
	path := "/api/v1/admin/items/" + s.Item
	must := func(what, want string) {
		t.Helper()
		st, ok, err := d.Stock.State(t.Context(), item)
		row := func(column string) int64 {
			return d.Number(`SELECT coalesce(sum(`+column+`), 0) FROM inventory.stock WHERE item_id = $1`, s.Item)
		}
		plan := d.Do(http.StatusOK, http.MethodGet, path, nil)
		got := fmt.Sprintf("stock %v: total %d, available %d, written off %d; Redis offers %d, %d remain", plan.Doc["stock"], row("total"), row("available"), row("written_off"), st.Total, st.Remaining)
		if err != nil || !ok || got != want {
			t.Errorf("%s: %s, want %s (%v)", what, got, want, err)
		}
		d.followsPlan(what, item)
	}
	for user := range int64(3) {
		require.Equal(t, "a rush", d.rush(item, user+1), fmt.Sprint(inventory.Granted))
	}
	must("three are granted", "stock 10: total 10, available 10, written off 0; Redis offers 10, 7 remain")
	var r seckilltest.Reply
	d.leaves("taking off", "[activity.start item.add-stock] and 2 events", func() {
		for range 2 { // once per key
			r = d.Do(http.StatusOK, http.MethodPost, path+"/stock", `{"add":-2}`, "Idempotency-Key", "k1")
		}
	})
	require.Equal(t, "taken off", []any{r.Doc["changed"], r.Doc["stock"]}, []any{-2.0, 8.0})
	must("two taken off", "stock 8: total 8, available 8, written off 0; Redis offers 8, 5 remain")
	d.recorded("item.add-stock", "stock", 10.0, 8.0)
	r = d.Do(http.StatusOK, http.MethodPost, path+"/write-off", `{"units":4,"reason":"Broken in transport"}`)
	require.Equal(t, "written off", r.Doc["written_off"], 4.0)
	must("four written off", "stock 8: total 8, available 4, written off 4; Redis offers 4, 1 remain")
	d.recorded("item.write-off", "written_off", 0.0, 4.0)
	for route, body := range map[string]string{"/stock": `{"add":-2}`, "/write-off": `{"units":2,"reason":"x"}`, "/backup": `{"units":2}`} { // one is free
		r = d.As(auth.Operator, http.MethodPost, path+route, body)
		r.Want(t, "more than is free, "+route, http.StatusConflict, "units-not-free", `"Of these 2 units, 1 can be taken."`)
		require.Equal(t, "free", r.Doc["free"], 1.0)
	}
	must("more than is free", "stock 8: total 8, available 4, written off 4; Redis offers 4, 1 remain")
	r = d.Do(http.StatusOK, http.MethodPost, path+"/stock", `{"add":-100,"or_fewer":true}`)
	require.Equal(t, "down to what is free", r.Doc["changed"], -1.0)
	must("down to what is held", "stock 7: total 7, available 3, written off 4; Redis offers 3, 0 remain")
	require.Equal(t, "the next shopper", d.rush(item, 9), fmt.Sprint(inventory.AllHeld))
	for _, body := range []string{`{"units":1,"reason":"x","or_fewer":true}`, `{"add":-1,"or_fewer":true}`} {
		route := map[bool]string{true: "/write-off", false: "/stock"}[strings.Contains(body, "units")]
		if r = d.Do(http.StatusOK, http.MethodPost, path+route, body); r.Doc["written_off"] != 0.0 && r.Doc["changed"] != 0.0 {
			t.Errorf("nothing is free: %s", r.Raw)
		}
	}
	must("and no further", "stock 7: total 7, available 3, written off 4; Redis offers 3, 0 remain")
	d.Do(http.StatusOK, http.MethodPost, path+"/stock", `{"add":2}`)
	must("two more", "stock 9: total 9, available 5, written off 4; Redis offers 5, 2 remain")
	for _, body := range []string{`{"add":0}`, `{"add":-10000001}`} {
		d.Do(http.StatusUnprocessableEntity, http.MethodPost, path+"/stock", body)
	}
	for _, body := range []string{`{"units":0,"reason":"x"}`, `{"units":1,"reason":""}`, `{"units":1,"reason":"\u2028"}`} {
		d.Do(http.StatusUnprocessableEntity, http.MethodPost, path+"/write-off", body)
	}
	d.As(auth.Viewer, http.MethodPost, path+"/write-off", `{"units":1,"reason":"x"}`).Want(t, "a viewer writes off", http.StatusForbidden, "")
	// While an item on sale does not decide, no unit leaves it.
	d.Redis.Del(t.Context(), "{g:i"+s.Item+":0}:"+s.Item+":state")
	d.As(auth.Operator, http.MethodPost, path+"/stock", `{"add":-1}`).Want(t, "without Redis", http.StatusServiceUnavailable, "fenced")
}

// TestWrittenOffUnitsOfAllShardsAreRecorded: what the audit log keeps is the item's, not a stock row's.
func TestWrittenOffUnitsOfAllShardsAreRecorded(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(-time.Minute)
	pgtest.Exec(t, d.DB, `UPDATE inventory.stock SET total = 5, available = 5 WHERE item_id = $1`, s.Item)
	pgtest.Exec(t, d.DB, `INSERT INTO inventory.stock SELECT (jsonb_populate_record(s, '{"shard": 1}')).* FROM inventory.stock s WHERE item_id = $1`, s.Item)
	require.NoError(t, d.Stock.Load(t.Context(), s.StockItem(t, false).ID))
	for _, c := range []struct{ units, before, after float64 }{{7, 0, 7}, {2, 7, 9}} {
		d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/write-off", map[string]any{"units": c.units, "reason": "x"})
		d.recorded("item.write-off", "written_off", c.before, c.after)
	}
}

// TestStockOfAnOversoldItemGoesDown takes goods off with the agreed share beyond them,
// in whole units.
func TestStockOfAnOversoldItemGoesDown(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(time.Hour)
	path := "/api/v1/admin/items/" + s.Item
	d.Do(http.StatusOK, http.MethodPut, path+"/oversell", `{"percent":50,"reason":"agreed"}`)
	// Of the fifteen units as many are held as are not free; -1 leaves them as they are.
	for _, c := range []struct{ free, add, changed, stock, total float64 }{
		{5, -2, -2, 8, 12},
		{-1, -9, -1, 7, 10},
		{-1, -1, 0, 7, 10},
		{1, -1, -1, 6, 9},
		{1, -1, 0, 6, 9}, // the next one of goods would leave with two units, of which one is free: it comes back
	} {
		if c.free >= 0 {
			d.SQL(`UPDATE inventory.stock SET available = $2 WHERE item_id = $1`, s.Item, c.free)
		}
		r := d.Do(http.StatusOK, http.MethodPost, path+"/stock", fmt.Sprintf(`{"add":%v,"or_fewer":true}`, c.add))
		if r.Doc["changed"] != c.changed || r.Doc["stock"] != c.stock || float64(d.Number(`SELECT total FROM inventory.stock WHERE item_id = $1`, s.Item)) != c.total {
			t.Errorf("%+v: %s", c, r.Raw)
		}
		d.followsPlan("oversold")
	}
}

// TestARunningSaleIsCorrected corrects texts and extends the end of a running sale, and
// expects the rest to stay.
func TestARunningSaleIsCorrected(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(-time.Minute)
	item := s.StockItem(t, false)
	require.NoError(t, d.Stock.Load(t.Context(), item.ID))
	activity, session, path := "/api/v1/admin/activities/"+s.Activity, "/api/v1/admin/sessions/"+s.Session, "/api/v1/admin/items/"+s.Item
	for _, late := range [][2]string{
		{path, `{"version":1,"title":"New","sale_price":{"amount":9800,"currency":"CNY"}}`},
		{path, `{"version":1,"limit_per_user":1}`},
		{session, `{"version":1,"reservation_cap":2}`},
		{activity, `{"version":1,"name":"New","human_check":"pow"}`},
	} {
		var r seckilltest.Reply
		tr := d.Traced(func() { r = d.As(auth.Operator, http.MethodPatch, late[0], late[1]) })
		if r.Status != http.StatusConflict && r.Status != http.StatusUnprocessableEntity || strings.Contains(tr.String(), "edit") {
			t.Errorf("%s %s: %d %s, left %v", late[0], late[1], r.Status, r.Raw, tr)
		}
	}
	r := d.As(auth.Operator, http.MethodPatch, path, `{"version":1,"sale_price":{"amount":9800,"currency":"CNY"}}`)
	r.Want(t, "a price", http.StatusConflict, "", itemCorrections[0])
	d.Do(http.StatusOK, http.MethodPatch, path, `{"version":1,"title":"A telephone","spec":"black","image_url":"https://img.example/q.png"}`)
	d.Do(http.StatusOK, http.MethodPatch, activity, `{"version":1,"name":"Great sale"}`)
	d.forgetBrowse()
	seen := d.Do(http.StatusOK, http.MethodGet, "/api/v1/items/"+s.Item, nil)
	texts := []string{seen.Text("title"), seen.Text("spec"), seen.Text("image_url")}
	require.Equal(t, "what shoppers see", texts, []string{"A telephone", "black", "https://img.example/q.png"})
	d.recorded("item.edit", "title", "A phone", "A telephone")

	closes := func() time.Time {
		t.Helper()
		st, ok, err := d.Stock.State(t.Context(), item)
		if err != nil || !ok {
			t.Fatal(st, ok, err)
		}
		return st.ClosesAt
	}
	at := func(d time.Duration) string {
		return time.Now().Add(d).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	was := closes()
	for _, flawed := range []string{at(time.Minute), at(5 * time.Hour)} { // earlier; after the activity's end
		d.Do(http.StatusUnprocessableEntity, http.MethodPatch, session, `{"version":1,"closes_at":"`+flawed+`"}`)
	}
	later := at(90 * time.Minute)
	d.Do(http.StatusOK, http.MethodPatch, session, `{"version":1,"closes_at":"`+later+`"}`)
	if now := closes(); now.Format(time.RFC3339) != later || !now.After(was) {
		t.Errorf("Redis closes at %v, not at %s", now, later)
	}
	shown, _ := d.items.Item(item.ID)
	require.Equal(t, "the end in the catalogue", shown.ClosesAt.UTC().Format(time.RFC3339), later)
	d.followsPlan("extended", item)
	end := at(5 * time.Hour)
	d.Do(http.StatusUnprocessableEntity, http.MethodPatch, activity, `{"version":2,"ends_at":"`+at(time.Hour)+`"}`)
	d.Do(http.StatusOK, http.MethodPatch, activity, `{"version":2,"ends_at":"`+end+`"}`)
	d.Do(http.StatusOK, http.MethodPatch, session, `{"version":2,"closes_at":"`+end+`"}`)
	require.Equal(t, "the end in Redis", closes().Format(time.RFC3339), end)

	// What is over stays over, and shoppers of an exclusive activity are bound to it for as long as it said.
	d.SQL(`UPDATE seckill.sessions SET closes_at = now() - interval '1 second' WHERE id = $1`, s.Session)
	r = d.As(auth.Operator, http.MethodPatch, session, `{"version":3,"closes_at":"`+at(time.Hour)+`"}`)
	r.Want(t, "a session that is over", http.StatusUnprocessableEntity, "", "is over")
	d.SQL(`UPDATE seckill.activities SET exclusive = true WHERE id = $1`, s.Activity)
	r = d.As(auth.Operator, http.MethodPatch, activity, `{"version":3,"ends_at":"`+at(6*time.Hour)+`"}`)
	r.Want(t, "an exclusive activity", http.StatusUnprocessableEntity, "", "exclusive")
}

// TestCorrectionsSurviveRedis restarts Redis in mid-sale, with its files, without them
// and with older ones: what operators corrected is in force after the Load.
func TestCorrectionsSurviveRedis(t *testing.T) {
	t.Parallel()
	y := setup(t)
	var server atomic.Pointer[redistest.Server]
	dir := t.TempDir()
	server.Store(redistest.Start(t, "--dir", dir))
	y.Redis = redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Load().Addr)
	}})
	t.Cleanup(func() { _ = y.Redis.Close() })
	y.Stock = y.NewStock()
	d := y.instance()
	s := d.Draft(-time.Minute)
	other := d.Do(http.StatusCreated, http.MethodPost, "/api/v1/admin/items", `{"session_id":"`+s.Session+`","sku":"b","title":"x","stock":9,
		"list_price":{"amount":1,"currency":"CNY"},"sale_price":{"amount":1,"currency":"CNY"}}`).Text("id")
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/publish", nil)
	selling, stopped := s.StockItem(t, false), seckilltest.Sale{Activity: s.Activity, Item: other}.StockItem(t, false)
	load := func() {
		t.Helper()
		for _, item := range []inventory.Item{selling, stopped} {
			require.NoError(t, d.Stock.Load(t.Context(), item.ID))
		}
	}
	load()
	end := time.Now().Add(90 * time.Minute).UTC().Truncate(time.Second)
	d.Do(http.StatusOK, http.MethodPatch, "/api/v1/admin/sessions/"+s.Session, `{"version":1,"closes_at":"`+end.Format(time.RFC3339)+`"}`)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/stock", `{"add":-2}`)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/write-off", `{"units":1,"reason":"broken"}`)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+other+"/pause", nil)
	must := func(after string) {
		t.Helper()
		st, ok, err := d.Stock.State(t.Context(), selling)
		if err != nil || !ok || st.Total != 7 || st.Remaining != 7 || !st.ClosesAt.Equal(end) {
			t.Errorf("%s: %+v, %v, %v", after, st, ok, err)
		}
		if got, want := d.rush(stopped, 1), fmt.Sprint("gate ", inventory.Paused); got != want {
			t.Errorf("%s: the paused item answers %s", after, got)
		}
		d.followsPlan(after, selling, stopped)
	}
	must("corrected")
	for _, files := range []struct{ what, dir string }{{"restarted", dir}, {"restarted with nothing", t.TempDir()}, {"restarted with an old copy", dir}} {
		server.Load().Kill()
		server.Store(redistest.Start(t, "--dir", files.dir))
		if got, want := d.rush(selling, 1), fmt.Sprint("gate ", inventory.Fenced); got != want {
			t.Errorf("%s: before the Load %s", files.what, got)
		}
		load()
		must(files.what)
	}
	require.Equal(t, "the next shopper", d.rush(selling, 1), fmt.Sprint(inventory.Granted))
}
