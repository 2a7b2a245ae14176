package change

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
)

// settled waits until the item is loaded and its state satisfies want, then returns
// the state.
func (d *instance) settled(s seckilltest.Sale, perActivity bool, what string, want func(inventory.State) bool) inventory.State {
	d.T.Helper()
	item := s.StockItem(d.T, perActivity)
	var st inventory.State
	eventually(d.T, what, func() bool {
		var ok bool
		var err error
		if st, ok, err = d.Stock.State(d.T.Context(), item); err != nil {
			d.T.Fatal(err)
		}
		return ok && st.Ready() && want(st)
	})
	return st
}

// TestAnEditAfterThePreheatIsLoadedAgain makes each kind of edit to a scheduled
// activity that is already in Redis.
func TestAnEditAfterThePreheatIsLoadedAgain(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	defer d.Run(d.preheat.Run)()
	s := d.Publish(10 * time.Minute) // within the preheat's lead
	st := d.settled(s, false, "the preheat", func(st inventory.State) bool { return st.Total == 10 })
	epoch := st.Epoch
	patch := func(what, id, body string) {
		t.Helper()
		r := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/"+what+"/"+id, nil)
		d.Do(http.StatusOK, http.MethodPatch, "/api/v1/admin/"+what+"/"+id, fmt.Sprintf(`{"version":%v,%s}`, r.Doc["version"], body))
	}
	newer := func(want func(inventory.State) bool) func(inventory.State) bool {
		return func(st inventory.State) bool { return st.Epoch > epoch && want(st) }
	}
	patch("items", s.Item, `"stock":12`)
	st = d.settled(s, false, "more stock", newer(func(st inventory.State) bool { return st.Total == 12 && st.Remaining == 12 }))
	epoch = st.Epoch
	patch("items", s.Item, `"stock":7`)
	st = d.settled(s, false, "less stock", newer(func(st inventory.State) bool { return st.Total == 7 && st.Remaining == 7 }))
	epoch = st.Epoch
	opens := time.Now().Add(20 * time.Minute).UTC().Truncate(time.Millisecond)
	patch("sessions", s.Session, `"opens_at":"`+opens.Format(time.RFC3339Nano)+`"`)
	st = d.settled(s, false, "another opening", newer(func(st inventory.State) bool { return st.OpensAt.Equal(opens) }))
	epoch = st.Epoch
	patch("activities", s.Activity, `"limit_per_user":3`)
	st = d.settled(s, false, "another limit", newer(func(st inventory.State) bool { return st.Limit == 3 }))
	epoch = st.Epoch
	require.Equal(t, "a sale allows buying again by default", st.Rebuy, false)
	patch("activities", s.Activity, `"rebuy_after_close":true`)
	st = d.settled(s, false, "once more", newer(func(st inventory.State) bool { return st.Rebuy }))
	epoch = st.Epoch
	patch("activities", s.Activity, `"rebuy_after_close":false`)
	st = d.settled(s, false, "never twice", newer(func(st inventory.State) bool { return !st.Rebuy }))
	epoch = st.Epoch
	patch("items", s.Item, `"unlimited":true,"stock":0`)
	st = d.settled(s, false, "no limit on the stock", newer(func(st inventory.State) bool { return st.Unlimited && st.Rebuy }))
	epoch = st.Epoch
	patch("items", s.Item, `"title":"Another title"`)
	patch("activities", s.Activity, `"one_item_per_user":true`)
	d.settled(s, true, "one item per user", newer(func(inventory.State) bool { return true }))
	if _, ok, err := d.Stock.State(t.Context(), s.StockItem(t, false)); err != nil || ok {
		t.Errorf("the keys under the old rule are still there: %v %v", ok, err)
	}
	// The title does not affect the stock: no Load for it.
	require.Equal(t, "loads requested by publication and eight stock edits", d.Number(`SELECT load_wanted FROM seckill.items WHERE id = $1`, s.Item), 9)
}

// TestDeletingScheduledThings checks that deletion also removes rows, stock,
// Redis keys and views.
func TestDeletingScheduledThings(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(10 * time.Minute)
	require.NoError(t, d.Stock.Load(t.Context(), s.StockItem(t, false).ID))
	for _, path := range []string{"items/" + s.Item, "sessions/" + s.Session} {
		d.As(auth.Operator, http.MethodDelete, "/api/v1/admin/"+path, nil).Want(t, "deleting the last item by "+path, 409, plan.ErrNotEditable.Code)
	}
	second := `{"session_id":"` + s.Session + `","sku":"b","title":"B","list_price":{"amount":1,"currency":"CNY"},"sale_price":{"amount":1,"currency":"CNY"},"stock":1}`
	other := d.Do(http.StatusCreated, http.MethodPost, "/api/v1/admin/items", second).Text("id")
	require.Equal(t, "stock rows of an item added after publication", d.Number(`SELECT count(*) FROM inventory.stock WHERE item_id = $1`, other), 1)
	d.leaves("deleting an item", "[item.delete] and 1 events", func() { d.Do(204, http.MethodDelete, "/api/v1/admin/items/"+s.Item, nil) })
	require.Equal(t, "stock rows of the deleted item", d.Number(`SELECT count(*) FROM inventory.stock WHERE item_id = $1`, s.Item), 0)
	if _, ok, err := d.Stock.State(t.Context(), s.StockItem(t, false)); err != nil || ok {
		t.Errorf("the deleted item is still in Redis: %v %v", ok, err)
	}
	d.Do(http.StatusOK, http.MethodGet, "/api/v1/sessions/"+s.Session, nil)
	d.leaves("deleting an activity", "[activity.delete] and 1 events", func() {
		d.Do(204, http.MethodDelete, "/api/v1/admin/activities/"+s.Activity, nil)
	})
	d.forgetBrowse()
	for _, path := range []string{"sessions/" + s.Session, "items/" + other} {
		d.As("", http.MethodGet, "/api/v1/"+path, nil).Want(t, path+" after its activity was deleted", 404, "")
	}
	require.Equal(t, "stock rows that are left", d.Number(`SELECT count(*) FROM inventory.stock`), 0)

	s = d.Publish(10*time.Minute, func(activity, _, _ map[string]any) { activity["one_item_per_user"] = true })
	require.NoError(t, d.Stock.Load(t.Context(), s.StockItem(t, true).ID))
	state := s.StockItem(t, true).StateKey()
	loaded := d.Redis.HGetAll(t.Context(), state).Val()
	d.Do(204, http.MethodDelete, "/api/v1/admin/activities/"+s.Activity, nil)
	left := func() string { return fmt.Sprint(d.Redis.Keys(t.Context(), "{g:*").Val()) }
	require.Equal(t, "keys of the deleted items", left(), "[]")
	// The same through the event alone, where the request itself could not reach Redis.
	require.NoError(t, d.Redis.HSet(t.Context(), state, loaded).Err())
	d.deliver()
	require.Equal(t, "keys of the deleted items after the event", left(), "[]")
}

// TestOpeningsOfPublishedSessionsLieAhead checks that a published session
// cannot be moved to an opening that leaves no time to load it.
func TestOpeningsOfPublishedSessionsLieAhead(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(30 * time.Minute)
	soon := time.Now().Add(50 * time.Second).UTC()
	r := d.As(auth.Operator, http.MethodPatch, "/api/v1/admin/sessions/"+s.Session, map[string]any{"version": 1, "opens_at": soon})
	r.Want(t, "", 422, "")
	d.Do(http.StatusOK, http.MethodPatch, "/api/v1/admin/sessions/"+s.Session, map[string]any{"version": 1, "opens_at": soon.Add(time.Minute)})
}

// TestAddedStockReachesRedis adds stock to a running sale, and again where the
// request itself could not carry the addition to Redis.
func TestAddedStockReachesRedis(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(-time.Minute)
	stop := d.Run(d.preheat.Run)
	st := d.settled(s, false, "the preheat", func(st inventory.State) bool { return st.Remaining == 10 })
	eventually(t, "the Load to be noted", func() bool {
		return d.Number(`SELECT load_wanted - load_done FROM seckill.items WHERE id = $1`, s.Item) == 0
	})
	stop()
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/stock", `{"add":5}`)
	reached := func(units int64) func(inventory.State) bool {
		return func(now inventory.State) bool { return now.Remaining == units && now.Epoch == st.Epoch }
	}
	d.settled(s, false, "the added units", reached(15))
	// The same through the event alone, and below through the preheat: neither
	// adds the units twice.
	d.deliver()
	d.settled(s, false, "the same", reached(15))
	d.SQL(`UPDATE inventory.stock SET total = total + 3, available = available + 3, rev = rev + 1 WHERE item_id = $1`, s.Item)
	defer d.Run(d.preheat.Run)()
	d.settled(s, false, "a change that only Postgres knew", reached(18))
}
