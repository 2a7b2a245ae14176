package seckill

import (
	"net/http"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

// TestCatalogueKnowsWhatIsPublished checks that the catalogue never has drafts
// and keeps everything else until long after its end.
func TestCatalogueKnowsWhatIsPublished(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	draft := d.draft(time.Hour)
	s := d.publish(-time.Minute, func(activity, _, item map[string]any) {
		activity["one_item_per_user"], activity["limit_per_user"], item["limit_per_user"] = true, 2, 5
		activity["payment_window_share"], activity["rebuy_after_close"] = 0.5, false
	})
	c := d.svc.Catalogue
	if _, ok := c.Item(draft.stockItem(t, false).ID); ok {
		t.Error("a draft's item is in the catalogue")
	}
	i, ok := c.Item(s.stockItem(t, false).ID)
	if !ok {
		t.Fatal("a published item is not in the catalogue")
	}
	if !i.OnSale || i.Paused || !i.PerActivity || i.UserLimit != 2 || i.PayWindow != 30*time.Minute || i.Rebuy || i.Total != 10 ||
		i.SalePrice != 9900 || i.ListPrice != 20000 || i.Currency != "CNY" || i.Stock() != s.stockItem(t, true) {
		t.Errorf("%+v", i)
	}
	base := "/api/v1/admin/activities/" + s.activity
	look := func() *catalogue.Item { i, _ := c.Item(i.ID); return i }
	d.do(http.StatusOK, http.MethodPost, base+"/pause", nil)
	if !look().Paused {
		t.Error("the pause is not seen")
	}
	if i.Paused {
		t.Error("a change reached an item that was handed out before")
	}
	d.do(http.StatusOK, http.MethodPost, base+"/terminate", nil)
	if look() == nil || look().OnSale {
		t.Error("a terminated item should be known, and not be on sale")
	}
	d.sql(`UPDATE seckill.activities SET starts_at = now() - interval '30 hours', ends_at = now() - interval '25 hours' WHERE id = $1`, s.activity)
	if err := c.Refresh(t.Context()); err != nil || look() != nil {
		t.Errorf("an item long over is still known: %v", err)
	}
}

// TestPreheatTimes checks when items are loaded.
func TestPreheatTimes(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		require.NoError(t, err)
		return v
	}
	opens := at("2026-11-11T10:00:00+08:00")
	if got := newPublishedPlan(cfg, nil).preheatAt(opens); !got.Equal(at("2026-11-11T09:30:00+08:00")) {
		t.Errorf("by the lead: %v", got)
	}
	cfg.PreheatAtMidnight = true
	if got := newPublishedPlan(cfg, nil).preheatAt(opens); !got.Equal(at("2026-11-11T00:00:00+08:00")) {
		t.Errorf("at midnight: %v", got)
	}
	if got := newPublishedPlan(cfg, nil).preheatAt(at("2026-11-11T00:10:00+08:00")); !got.Equal(at("2026-11-10T23:40:00+08:00")) {
		t.Errorf("ten minutes past midnight: %v", got)
	}
}

// TestShoppersSeeThePlan checks one complete answer, and that a draft is not
// shown.
func TestShoppersSeeThePlan(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.publish(-time.Minute, func(activity, _, item map[string]any) {
		activity["limit_per_user"], item["limit_per_user"], activity["payment_window_share"] = 5, 2, 0.5
	})
	require.NoError(t, d.Stock.Load(t.Context(), s.stockItem(t, false).ID))
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
	// The remaining units change, and so does the ETag.
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
	draft := d.draft(time.Hour)
	for _, path := range []string{"items/" + draft.item, "sessions/" + draft.session} {
		d.as("", http.MethodGet, "/api/v1/"+path, nil).want(t, "a draft is shown", http.StatusNotFound, "")
	}
}

func (d *instance) epoch(s sale) int64 {
	d.T.Helper()
	st, ok, err := d.Stock.State(d.T.Context(), s.stockItem(d.T, false))
	if err != nil || !ok {
		d.T.Fatal(ok, err)
	}
	return st.Epoch
}
