package change

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
)

// TestUnpayableItemsAreNotPublished checks that without a payment provider an
// item with a price is neither published nor added to a published activity, and
// that a free item is.
func TestUnpayableItemsAreNotPublished(t *testing.T) {
	t.Parallel()
	const said = "No payment provider is set up on this server, so shoppers could not pay for \\\"A phone\\\": give it a sale price of 0"
	d := setup(t).instance(func(cfg *plan.Config, _ *Deps) { cfg.CanPay = false })
	refused := func(what, method, path string, body any, location string) {
		t.Helper()
		d.leaves(what, nothing, func() {
			d.As(auth.Operator, method, path, body).Want(t, what, http.StatusUnprocessableEntity, "", said, `"`+location+`"`)
		})
	}
	s := d.Draft(time.Hour)
	refused("publishing", http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/publish", nil, "item "+s.Item)

	free := d.Publish(time.Hour, func(_, _, item map[string]any) { item["sale_price"] = map[string]any{"amount": 0, "currency": "CNY"} })
	price := `{"version":1,"sale_price":{"amount":1,"currency":"CNY"}}`
	refused("a price for what is published", http.MethodPatch, "/api/v1/admin/items/"+free.Item, price, "item "+free.Item)
	freight := `{"version":1,"checkout":{"ways":["delivery"],"address":"required","freight":{"amount":8,"currency":"CNY"}}}`
	refused("freight for what is published", http.MethodPatch, "/api/v1/admin/activities/"+free.Activity, freight, "item "+free.Item)
	d.Do(http.StatusOK, http.MethodPatch, "/api/v1/admin/items/"+free.Item, `{"version":1,"title":"A free phone"}`)
}

// TestStoredFreightGetsACurrency runs the upgrade on an activity of a release that stored
// its freight without one.
func TestStoredFreightGetsACurrency(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	yen := func(amount int) map[string]any { return map[string]any{"amount": amount, "currency": "JPY"} }
	s := d.Draft(time.Hour, func(activity, _, item map[string]any) {
		activity["checkout"] = map[string]any{"ways": []string{"delivery"}, "address": "required", "freight": yen(8)}
		item["list_price"], item["sale_price"] = yen(900), yen(800)
	})
	upgrade, err := os.ReadFile("../../migrations/01252_freight_currency.sql")
	require.NoError(t, err)
	d.SQL(`UPDATE seckill.activities SET checkout = checkout - 'currency' WHERE id = $1`, s.Activity)
	d.SQL(string(upgrade))
	d.As(auth.Operator, http.MethodGet, "/api/v1/admin/activities/"+s.Activity, nil).Want(t, "the activity", http.StatusOK, "", `"freight":{"amount":8,"currency":"JPY"}`)
}

// TestServerWithoutAProviderWarns checks for the warning in the log at start.
func TestServerWithoutAProviderWarns(t *testing.T) {
	t.Parallel()
	y := setup(t)
	for canPay, want := range map[bool]int{true: 0, false: 1} {
		var log bytes.Buffer
		d := y.instance(func(cfg *plan.Config, deps *Deps) {
			cfg.CanPay, deps.Log = canPay, slog.New(slog.NewTextHandler(&log, nil))
		})
		d.Run(d.svc.runLifecycle)() // started and ended
		require.Equal(t, fmt.Sprint("can pay ", canPay, ": warnings"), strings.Count(log.String(), "no payment provider is set up"), want)
	}
}

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
			require.Equal(t, fmt.Sprint("opens in ", opensIn, ", ", what, ": editable until"), r.Text("editable_until"), utc(opens.Add(-time.Minute)))
		}
		edit := d.As(auth.Operator, http.MethodPatch, path, `{"version":1,"limit_per_user":2}`)
		edit.Want(t, fmt.Sprint("opens in ", opensIn, ", an edit"), want, "")
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
	require.Equal(t, "units in Postgres", d.Number(`SELECT total FROM inventory.stock WHERE item_id = $1`, item.ID), 13)
}

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
	_, ok := c.Item(draft.StockItem(t, false).ID)
	require.Equal(t, "a draft's item in the catalogue", ok, false)
	i, ok := c.Item(s.StockItem(t, false).ID)
	require.Equal(t, "a published item in the catalogue", ok, true)
	if !i.OnSale || !i.PerActivity || i.UserLimit != 2 || i.PayWindow != 30*time.Minute || i.Total != 10 ||
		i.SalePrice != 9900 || i.Currency != "CNY" || i.Stock() != s.StockItem(t, true) {
		t.Errorf("%+v", i)
	}
	base := "/api/v1/admin/activities/" + s.Activity
	look := func() *catalogue.Item { i, _ := c.Item(i.ID); return i }
	d.Do(http.StatusOK, http.MethodPost, base+"/terminate", nil)
	if look() == nil || look().OnSale || !i.OnSale {
		t.Error("a terminated item should be known, and not be on sale, except as it was handed out before")
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
		require.Equal(t, field, r.Doc[field], want)
	}
	_, err := time.Parse("2006-01-02T15:04:05.000Z", r.Text("server_time"))
	require.NoError(t, err)
	if r.Header.Get("Cache-Control") != "public, max-age=1" || r.Header.Get("ETag") == "" {
		t.Errorf("headers: %v", r.Header)
	}
	again := d.As("", http.MethodGet, "/api/v1/items/"+s.Item, nil, "If-None-Match", `"other", W/`+r.Header.Get("ETag"))
	if again.Status != http.StatusNotModified || len(again.Raw) != 0 {
		t.Errorf("the same again: %d %s", again.Status, again.Raw)
	}
	// The remaining units change, and so does the ETag.
	require.NoError(t, d.Stock.Reserve(t.Context(), s.StockItem(t, false), d.epoch(s), []inventory.Attempt{{User: 5, No: ids.NewFor(5), Quantity: 2}}, &inventory.Decision{}))
	d.forgetBrowse()
	r = d.As("", http.MethodGet, "/api/v1/sessions/"+s.Session, nil)
	item := r.Doc["items"].([]any)[0].(map[string]any)
	require.Equal(t, "the session", []any{item["remaining"], r.Doc["status"], r.Doc["item_count"]}, []any{8.0, "on_sale", 1.0})
	again = d.As("", http.MethodGet, "/api/v1/items/"+s.Item, nil, "If-None-Match", again.Header.Get("ETag"))
	again.Want(t, "changed", http.StatusOK, "")
	require.Equal(t, "changed", again.Doc["remaining"], 8.0)
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

// TestStockFollowsThePlan plants each kind of violation and expects Checks to
// report it.
func TestStockFollowsThePlan(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	check := plan.Checks(d.DB, d.Stock)[0]
	a, b, c := d.Publish(time.Hour), d.Publish(time.Hour), d.Publish(time.Hour)
	d.Draft(time.Hour)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+a.Item+"/stock", `{"add":5}`)
	if found, err := check.Run(t.Context()); err != nil || len(found) != 0 {
		t.Fatalf("all is well: %v %v", found, err)
	}
	d.SQL(`DELETE FROM inventory.stock WHERE item_id = $1`, a.Item)
	d.SQL(`UPDATE inventory.stock SET total = 11, available = 11 WHERE item_id = $1`, b.Item)
	d.SQL(`DELETE FROM seckill.activities WHERE id = $1`, c.Activity)
	found, err := check.Run(t.Context())
	require.NoError(t, err)
	said := fmt.Sprint(found)
	for item, want := range map[string]string{a.Item: "no stock row", b.Item: "10 units on sale; the stock row has 11", c.Item: "not published"} {
		if len(found) != 3 || !strings.Contains(said, "item "+item) || !strings.Contains(said, want) {
			t.Errorf("%s of item %s is not in %s", want, item, said)
		}
	}
}

// TestExclusiveActivitiesShareNoUser plants live orders of one user in two
// exclusive activities, which the claim at the door prevents.
func TestExclusiveActivitiesShareNoUser(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	exclusive := func(activity, _, _ map[string]any) { activity["exclusive"] = true }
	a, b, later, open := d.Publish(-time.Minute, exclusive), d.Publish(-time.Minute, exclusive), d.Publish(24*time.Hour, exclusive), d.Publish(-time.Minute)
	terminated, short := d.Publish(-time.Minute, exclusive), d.Publish(-time.Minute, exclusive)
	d.SQL(`UPDATE seckill.activities SET status = 'running'`)
	order := func(user int64, s seckilltest.Sale, status string) {
		t.Helper()
		d.SQL(`INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, currency, title, status, pay_deadline)
			VALUES (5, $1, $2, $3, $4, $5, 1, 1, 9900, 'CNY', 'A phone', $6, now())`, ids.New(), user, s.Item, s.Activity, s.Session, status)
	}
	order(1, a, "paid")
	order(1, open, "paid")
	order(1, later, "paid") // not at the same time
	order(2, a, "closed")
	order(2, b, "paid")
	order(3, a, "pending_payment")
	order(3, b, "refunding")
	order(6, a, "paid")
	d.SQL(`UPDATE orders.orders SET reason = 'backup' WHERE user_id = 6`) // paid after the other one was placed
	order(6, b, "paid")
	order(4, terminated, "paid")
	order(4, b, "paid")
	order(5, terminated, "paid")
	d.SQL(`UPDATE seckill.activities SET status = 'terminated', updated_at = clock_timestamp() WHERE id = $1`, terminated.Activity)
	order(5, b, "paid") // after its end
	order(7, short, "paid")
	d.SQL(`UPDATE seckill.activities SET ends_at = clock_timestamp() WHERE id = $1`, short.Activity)
	order(7, b, "paid") // likewise
	for _, c := range plan.Checks(d.DB, d.Stock) {
		if c.ID != "I3" {
			continue
		}
		const said = "{user %d The user has live orders of the exclusive activities %s and %s.}"
		want := fmt.Sprintf("["+said+" "+said+"]", 3, a.Activity, b.Activity, 4, b.Activity, terminated.Activity)
		if found, err := c.Run(t.Context()); err != nil || fmt.Sprint(found) != want {
			t.Errorf("found %v, error %v, want %s", found, err, want)
		}
		return
	}
	t.Error("there is no such check")
}
