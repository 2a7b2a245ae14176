package change

import (
	"net/http"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
)

// TestEditableUntilSaysWhenEditsEnd checks editable_until at publication and on
// every read, and that edits really end then.
func TestEditableUntilSaysWhenEditsEnd(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	for opensIn, want := range map[time.Duration]int{time.Hour: http.StatusOK, 30 * time.Second: http.StatusConflict} {
		s := d.Draft(opensIn)
		path := "/api/v1/admin/activities/" + s.Activity
		draft := d.Do(http.StatusOK, http.MethodGet, path, nil)
		if v, said := draft.Doc["editable_until"]; said {
			t.Errorf("a draft says %v", v)
		}
		opens, err := time.Parse(time.RFC3339, draft.Doc["sessions"].([]any)[0].(map[string]any)["opens_at"].(string))
		require.NoError(t, err)
		for what, r := range map[string]seckilltest.Reply{
			"published": d.Do(http.StatusOK, http.MethodPost, path+"/publish", nil),
			"read":      d.Do(http.StatusOK, http.MethodGet, path, nil),
		} {
			if r.Text("editable_until") != utc(opens.Add(-time.Minute)) {
				t.Errorf("opens in %v, %s: editable until %q", opensIn, what, r.Text("editable_until"))
			}
		}
		if r := d.As(auth.Operator, http.MethodPatch, path, `{"version":1,"limit_per_user":2}`); r.Status != want {
			t.Errorf("opens in %v, an edit: %d %s", opensIn, r.Status, r.Raw)
		}
		if v, said := d.Do(http.StatusOK, http.MethodPost, path+"/terminate", nil).Doc["editable_until"]; said {
			t.Errorf("a terminated activity says %v", v)
		}
	}
}

// TestStockIsAddedInTheLastMinute adds stock before the item's first Load,
// after it and while a Load is owed, and expects every unit on sale once.
func TestStockIsAddedInTheLastMinute(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(30 * time.Second)
	add := func() {
		t.Helper()
		d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/stock", `{"add":1}`)
	}
	item := s.StockItem(t, false)
	add()
	require.NoError(t, d.Stock.Load(t.Context(), item.ID))
	add()
	d.SQL(`UPDATE seckill.items SET load_wanted = load_wanted + 1`)
	add()
	defer d.Run(d.preheat.Run)()
	eventually(t, "the Load is done", func() bool { return d.Number(`SELECT count(*) FROM seckill.items WHERE load_wanted > load_done`) == 0 })
	d.settled(s, false, "13 units on sale", func(st inventory.State) bool { return st.Total == 13 && st.Remaining == 13 })
	if n := d.Number(`SELECT total FROM inventory.stock WHERE item_id = $1`, item.ID); n != 13 {
		t.Errorf("Postgres has %d units", n)
	}
}
