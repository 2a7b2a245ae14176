package change

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
)

// planned is what the item's document and its stock row say.
func (d *instance) planned(item string) string {
	d.T.Helper()
	r := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/items/"+item, nil)
	row := func(column string) int64 {
		return d.Number(`SELECT coalesce(sum(`+column+`), 0) FROM inventory.stock WHERE item_id = $1`, item)
	}
	return fmt.Sprintf("stock %v backup %v, of %d are %d available and %d held back", r.Doc["stock"], r.Doc["backup"], row("total"), row("available"), row("backup"))
}

// TestBackupIsPlanned follows an item's backup from the draft through edits, a
// publication and a clone.
func TestBackupIsPlanned(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Draft(time.Hour, func(activity, session, item map[string]any) {
		item["backup"], activity["external_id"], session["external_id"], item["external_id"] = 2, "a", "s", "i"
	})
	path := "/api/v1/admin/items/" + s.Item
	must := func(what, want string) {
		t.Helper()
		require.Equal(t, what, d.planned(s.Item), want)
	}
	must("a draft", "stock 10 backup 2, of 0 are 0 available and 0 held back")
	for _, body := range []string{`{"version":1,"backup":9999991}`, `{"version":1,"unlimited":true,"backup":1}`, `{"version":1,"backup":-1}`} {
		d.Do(http.StatusUnprocessableEntity, http.MethodPatch, path, body)
	}
	d.Do(http.StatusOK, http.MethodPatch, path, `{"version":1,"backup":3}`)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/publish", nil)
	must("published", "stock 10 backup 3, of 13 are 10 available and 3 held back")
	d.Do(http.StatusOK, http.MethodPatch, path, `{"version":2,"backup":1,"stock":12}`)
	must("edited", "stock 12 backup 1, of 13 are 12 available and 1 held back")
	clone := d.Do(http.StatusCreated, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/clone", `{"shift_days":1}`)
	var cloned struct {
		Sessions []struct{ Items []struct{ Backup int32 } }
	}
	if err := json.Unmarshal(clone.Raw, &cloned); err != nil || cloned.Sessions[0].Items[0].Backup != 1 {
		t.Errorf("the clone: %v, %s", err, clone.Raw)
	}
	// An item of which no unit is on sale is edited like any other, but not to have none.
	d.Do(http.StatusOK, http.MethodPost, path+"/backup", `{"units":12}`)
	must("all held back", "stock 0 backup 13, of 13 are 0 available and 13 held back")
	d.Do(http.StatusOK, http.MethodPatch, path, `{"version":4,"title":"B"}`)
	d.leaves("what GET answers of it", nothing, func() { d.put(http.StatusOK, "a", d.document("a")) })
	d.Do(http.StatusOK, http.MethodPatch, path, `{"version":5,"stock":1}`)
	d.Do(http.StatusUnprocessableEntity, http.MethodPatch, path, `{"version":6,"stock":0}`)
}

// TestMoveBackup moves units in both directions while the sale runs: no more than
// are available, once per key, recorded, and known to Redis and to the checks.
func TestMoveBackup(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(-time.Minute, func(_, _, item map[string]any) { item["backup"] = 1 })
	item := s.StockItem(t, false)
	require.NoError(t, d.Stock.Load(t.Context(), item.ID))
	path := "/api/v1/admin/items/" + s.Item + "/backup"
	must := func(what, want string) {
		t.Helper()
		require.Equal(t, what, d.planned(s.Item), want)
		st, ok, err := d.Stock.State(t.Context(), item)
		row, _, bookErr := d.Stock.Book(t.Context(), item.ID)
		if err != nil || bookErr != nil || !ok || row.Difference != 0 || st.Rev != d.Number(`SELECT rev FROM inventory.stock WHERE item_id = $1`, s.Item) {
			t.Errorf("%s: state %+v, books %+v, %v, %v", what, st, row, err, bookErr)
		}
		d.offPlan(what, 0)
	}
	var r seckilltest.Reply
	d.leaves("a move", "[activity.start item.backup] and 2 events", func() {
		for range 2 { // once per key
			r = d.Do(http.StatusOK, http.MethodPost, path, `{"units":4}`, "Idempotency-Key", "k1")
		}
	})
	require.Equal(t, "moved", r.Doc["moved"], 4.0)
	must("to the backup", "stock 6 backup 5, of 11 are 6 available and 5 held back")
	var into inventory.Decision
	no := ids.NewFor(5)
	require.NoError(t, d.Stock.Reserve(t.Context(), item, d.epoch(s), []inventory.Attempt{{User: 5, No: no, Quantity: 1}}, &into))
	r = d.Do(http.StatusOK, http.MethodPost, path, `{"units":10,"or_fewer":true}`)
	require.Equal(t, "moved of 6, of which one is granted", r.Doc["moved"], 5.0)
	require.Equal(t, "back on sale", d.Do(http.StatusOK, http.MethodPost, path, `{"units":-3}`).Doc["moved"], -3.0)
	must("and back", "stock 4 backup 7, of 11 are 4 available and 7 held back")
	for _, body := range []string{`{"units":0}`, `{"units":10000001}`} {
		d.Do(http.StatusUnprocessableEntity, http.MethodPost, path, body)
	}
	d.As(auth.Viewer, http.MethodPost, path, `{"units":1}`).Want(t, "a viewer moves units", http.StatusForbidden, "")
	// While an item on sale does not decide, no unit leaves it.
	d.Redis.Del(t.Context(), "{g:i"+s.Item+":0}:"+s.Item+":state")
	d.As(auth.Operator, http.MethodPost, path, `{"units":1}`).Want(t, "without Redis", http.StatusServiceUnavailable, "fenced")
	draft := d.Draft(time.Hour)
	d.As(auth.Operator, http.MethodPost, "/api/v1/admin/items/"+draft.Item+"/backup", `{"units":1}`).Want(t, "of a draft", http.StatusConflict, "")
	d.SQL(`UPDATE inventory.stock SET backup = backup - 1, available = available + 1 WHERE item_id = $1`, s.Item)
	d.offPlan("a unit that moved without a plan", 1)
}

// TestMoveBackupOfAnOversoldItemAndAfterTheEnd moves what is safe: units of an oversold
// item come back to the sale with their share beyond the stock, and after the end both
// ways are open.
func TestMoveBackupOfAnOversoldItemAndAfterTheEnd(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Draft(-time.Minute, func(_, _, item map[string]any) { item["backup"] = 5 })
	path := "/api/v1/admin/items/" + s.Item
	d.Do(http.StatusOK, http.MethodPut, path+"/oversell", `{"percent":25,"reason":"contract 7"}`)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/publish", nil)
	item := s.StockItem(t, false)
	require.NoError(t, d.Stock.Load(t.Context(), item.ID))
	must := func(what, want string, remaining int64) {
		t.Helper()
		require.Equal(t, what, d.planned(s.Item), want)
		st, _, err := d.Stock.State(t.Context(), item)
		require.NoError(t, err)
		require.Equal(t, what+": units left", st.Remaining, remaining)
		d.offPlan(what, 0)
	}
	must("oversold", "stock 10 backup 5, of 17 are 12 available and 5 held back", 12)
	d.As(auth.Operator, http.MethodPost, path+"/backup", `{"units":1}`).Want(t, "off the sale", http.StatusUnprocessableEntity, "", "below 0")
	require.Equal(t, "to the sale", d.Do(http.StatusOK, http.MethodPost, path+"/backup", `{"units":-2}`).Doc["moved"], -2.0)
	must("two came back with one more", "stock 12 backup 3, of 18 are 15 available and 3 held back", 15)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/terminate", nil)
	d.Do(http.StatusOK, http.MethodPost, path+"/backup", `{"units":-1}`)
	must("after the end", "stock 13 backup 2, of 18 are 16 available and 2 held back", 16)

	plain := d.Publish(-time.Minute)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+plain.Activity+"/terminate", nil)
	r := d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+plain.Item+"/backup", `{"units":3}`)
	require.Equal(t, "moved after the end", r.Doc["moved"], 3.0)
	require.Equal(t, "after the end", d.planned(plain.Item), "stock 7 backup 3, of 10 are 7 available and 3 held back")
}
