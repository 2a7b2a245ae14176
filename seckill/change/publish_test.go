package change

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
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
		tr := d.Traced(func() {
			r := d.As(auth.Operator, method, path, body)
			if r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), said) || !strings.Contains(string(r.Raw), `"`+location+`"`) {
				t.Errorf("%s: %d %s", what, r.Status, r.Raw)
			}
		})
		if tr.String() != "[] and 0 events" {
			t.Errorf("%s left %v", what, tr)
		}
	}
	s := d.Draft(time.Hour)
	refused("publishing", http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/publish", nil, "item "+s.Item)

	free := d.Publish(time.Hour, func(_, _, item map[string]any) { item["sale_price"] = map[string]any{"amount": 0, "currency": "CNY"} })
	price := `{"version":1,"sale_price":{"amount":1,"currency":"CNY"}}`
	refused("a price for what is published", http.MethodPatch, "/api/v1/admin/items/"+free.Item, price, "item "+free.Item)
	freight := `{"version":1,"checkout":{"ways":["delivery"],"address":"required","freight":8}}`
	refused("freight for what is published", http.MethodPatch, "/api/v1/admin/activities/"+free.Activity, freight, "item "+free.Item)
	d.Do(http.StatusOK, http.MethodPatch, "/api/v1/admin/items/"+free.Item, `{"version":1,"title":"A free phone"}`)
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
		if n := strings.Count(log.String(), "no payment provider is set up"); n != want {
			t.Errorf("can pay %v: logged %d times:\n%s", canPay, n, &log)
		}
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

// TestTheLogNamesWhoChangedTheSale expects one log line for each action that
// affects shoppers immediately, and none for one that changed nothing.
func TestTheLogNamesWhoChangedTheSale(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := setup(t).instance(func(_ *plan.Config, deps *Deps) { deps.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s := d.Draft(time.Hour)
	var want []string
	for _, act := range []plan.Action{plan.ActPublish, plan.ActPublish, plan.ActPause, plan.ActPause, plan.ActResume, plan.ActAddStock, plan.ActTerminate} {
		if r := d.try(s, act); r.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", act, r.Status, r.Raw)
		}
		line := "action=" + string(act) + " activity_id=" + s.Activity + " actor=72"
		if act == plan.ActAddStock {
			line = "action=add-stock item_id=" + s.Item + " units=1 actor=72"
		}
		if !slices.Contains(want, line) {
			want = append(want, line)
		}
	}
	gone := d.Draft(time.Hour)
	d.Do(http.StatusNoContent, http.MethodDelete, "/api/v1/admin/activities/"+gone.Activity, nil) // a draft: shoppers have not seen it
	gone = d.Publish(time.Hour)
	rated := "/api/v1/admin/items/" + gone.Item + "/admission"
	d.Do(http.StatusOK, http.MethodPut, rated, `{"per_second":5}`)
	d.Do(http.StatusOK, http.MethodPut, rated, `{"per_second":0}`)
	d.Do(http.StatusOK, http.MethodPut, rated, `{"per_second":null}`)
	d.Do(http.StatusNoContent, http.MethodDelete, "/api/v1/admin/activities/"+gone.Activity, nil)
	want = append(want, "action=publish activity_id="+gone.Activity+" actor=72",
		"action=admission item_id="+gone.Item+" per_second=5 actor=72", "action=admission item_id="+gone.Item+" per_second=0 actor=72",
		"action=admission item_id="+gone.Item+" per_second=unlimited actor=72",
		"action=delete activity_id="+gone.Activity+" actor=72")
	var said []string
	for line := range strings.Lines(log.String()) {
		if _, what, ok := strings.Cut(line, `level=INFO msg="sale changed by an operator" `); ok {
			said = append(said, strings.TrimSpace(what))
		}
	}
	if !slices.Equal(said, want) {
		t.Errorf("logged %q, want %q", said, want)
	}
}
