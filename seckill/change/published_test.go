package change

import (
	"net/http"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
)

// TestCatalogueKnowsWhatIsPublished checks that the catalogue never has drafts
// and keeps everything else until long after its end.
func TestCatalogueKnowsWhatIsPublished(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	draft := d.Draft(time.Hour)
	s := d.Publish(-time.Minute, func(activity, _, item map[string]any) {
		activity["one_item_per_user"], activity["limit_per_user"], item["limit_per_user"] = true, 2, 5
		activity["payment_window_share"], activity["rebuy_after_close"] = 0.5, false
	})
	c := d.items
	if _, ok := c.Item(draft.StockItem(t, false).ID); ok {
		t.Error("a draft's item is in the catalogue")
	}
	i, ok := c.Item(s.StockItem(t, false).ID)
	if !ok {
		t.Fatal("a published item is not in the catalogue")
	}
	if !i.OnSale || i.Paused || !i.PerActivity || i.UserLimit != 2 || i.PayWindow != 30*time.Minute || i.Rebuy || i.Total != 10 ||
		i.SalePrice != 9900 || i.ListPrice != 20000 || i.Currency != "CNY" || i.Stock() != s.StockItem(t, true) {
		t.Errorf("%+v", i)
	}
	base := "/api/v1/admin/activities/" + s.Activity
	look := func() *catalogue.Item { i, _ := c.Item(i.ID); return i }
	d.Do(http.StatusOK, http.MethodPost, base+"/pause", nil)
	if !look().Paused {
		t.Error("the pause is not seen")
	}
	if i.Paused {
		t.Error("a change reached an item that was handed out before")
	}
	d.Do(http.StatusOK, http.MethodPost, base+"/terminate", nil)
	if look() == nil || look().OnSale {
		t.Error("a terminated item should be known, and not be on sale")
	}
	d.SQL(`UPDATE seckill.activities SET starts_at = now() - interval '30 hours', ends_at = now() - interval '25 hours' WHERE id = $1`, s.Activity)
	if err := c.Refresh(t.Context()); err != nil || look() != nil {
		t.Errorf("an item long over is still known: %v", err)
	}
}

// TestShoppersSeeThePlan checks one complete answer, and that a draft is not
// shown.
func TestShoppersSeeThePlan(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(-time.Minute, func(activity, _, item map[string]any) {
		activity["limit_per_user"], item["limit_per_user"], activity["payment_window_share"] = 5, 2, 0.5
	})
	require.NoError(t, d.Stock.Load(t.Context(), s.StockItem(t, false).ID))
	r := d.As("", http.MethodGet, "/api/v1/items/"+s.Item, nil)
	for field, want := range map[string]any{
		"id": s.Item, "session_id": s.Session, "activity_id": s.Activity, "sku": "phone", "title": "A phone", "status": "on_sale",
		"remaining": 10.0, "total": 10.0, "limit_per_user": 2.0, "one_item_per_user": false, "payment_window_seconds": 1800.0,
	} {
		if r.Doc[field] != want {
			t.Errorf("%s is %v, want %v", field, r.Doc[field], want)
		}
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", r.Text("server_time")); err != nil {
		t.Error(err)
	}
	if r.Header.Get("Cache-Control") != "public, max-age=1" || r.Header.Get("ETag") == "" {
		t.Errorf("headers: %v", r.Header)
	}
	again := d.As("", http.MethodGet, "/api/v1/items/"+s.Item, nil, "If-None-Match", `"other", W/`+r.Header.Get("ETag"))
	if again.Status != http.StatusNotModified || len(again.Raw) != 0 {
		t.Errorf("the same again: %d %s", again.Status, again.Raw)
	}
	// The remaining units change, and so does the ETag.
	if err := d.Stock.Reserve(t.Context(), s.StockItem(t, false), d.epoch(s), []inventory.Attempt{{User: 5, No: ids.NewFor(5), Quantity: 2}}, &inventory.Decision{}); err != nil {
		t.Fatal(err)
	}
	d.forgetBrowse()
	r = d.As("", http.MethodGet, "/api/v1/sessions/"+s.Session, nil)
	item := r.Doc["items"].([]any)[0].(map[string]any)
	if item["remaining"] != 8.0 || r.Text("status") != "on_sale" || r.Doc["item_count"] != 1.0 {
		t.Errorf("session: %s", r.Raw)
	}
	again = d.As("", http.MethodGet, "/api/v1/items/"+s.Item, nil, "If-None-Match", again.Header.Get("ETag"))
	if again.Status != http.StatusOK || again.Doc["remaining"] != 8.0 {
		t.Errorf("changed: %d %s", again.Status, again.Raw)
	}
	draft := d.Draft(time.Hour)
	for _, path := range []string{"items/" + draft.Item, "sessions/" + draft.Session} {
		d.As("", http.MethodGet, "/api/v1/"+path, nil).Want(t, "a draft is shown", http.StatusNotFound, "")
	}
}

func (d *instance) epoch(s seckilltest.Sale) int64 {
	d.T.Helper()
	st, ok, err := d.Stock.State(d.T.Context(), s.StockItem(d.T, false))
	if err != nil || !ok {
		d.T.Fatal(ok, err)
	}
	return st.Epoch
}
