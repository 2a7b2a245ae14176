package seckill

import (
	"context"
	"net/http"
	"testing"
	"time"

	"stampede/platform/bus"
	"stampede/seckill/catalogue"
)

// TestCatalogueKnowsWhatIsPublished: drafts never, everything else until long
// after its end.
func TestCatalogueKnowsWhatIsPublished(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
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

// TestCatalogueLearnsOfChanges by the event and, when that is lost, by looking
// itself; nothing is read while nothing changes.
func TestCatalogueLearnsOfChanges(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	pool, queries := y.counted()
	a, b := y.desk(), y.desk(func(_ *Config, deps *Deps) { deps.DB = pool })
	c := b.svc.Catalogue
	stop := b.Run(c.Run)
	s := a.publish(time.Hour)
	if err := c.Subscription().Handle(t.Context(), bus.Msg{}); err != nil {
		t.Fatal(err)
	}
	known := func() bool { _, ok := c.Item(s.stockItem(t, false).ID); return ok }
	eventually(t, "the event", known)
	a.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/pause", nil)
	eventually(t, "the poll", func() bool { i, _ := c.Item(s.stockItem(t, false).ID); return i.Paused })
	seen, _ := c.Item(s.stockItem(t, false).ID)
	same := func() bool { i, _ := c.Item(seen.ID); return i == seen }
	stop() // its own looks would be counted, too
	before := queries.n.Load()
	for range 5 {
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := queries.n.Load() - before; n > 5 || !same() {
		t.Errorf("%d statements for five looks at an unchanged catalogue", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Refresh(ctx); err == nil || !same() {
		t.Error("a failed refresh should leave the picture as it was")
	}
}
