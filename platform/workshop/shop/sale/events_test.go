package sale

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// feed is a system of the shop that pulls events.
type feed struct {
	token, next string
	told        map[string][]map[string]any // what happened, by type
	order       []string                    // types of the events about sessions and items
}

// await pulls until there are n events of a type.
func (f *feed) await(t *testing.T, in *shop.Instance, kind string, n int) {
	t.Helper()
	pgtest.Eventually(t, time.Minute, func() bool {
		page := in.Do(t, http.MethodGet, "/api/v1/events?wait=1&after="+url.QueryEscape(f.next), f.token, nil, http.StatusOK)
		f.next = page["next"].(string) //nolint:errcheck // a string, or the contract is broken
		for _, e := range page["data"].([]any) {
			e, _ := e.(map[string]any)
			kind, _ := e["type"].(string)
			data, _ := e["data"].(map[string]any)
			f.told[kind] = append(f.told[kind], data)
			if strings.HasPrefix(kind, "item.") || strings.HasPrefix(kind, "session.") {
				f.order = append(f.order, kind)
			}
		}
		return len(f.told[kind]) >= n
	}, "the event "+kind)
}

// TestEventsTellTheSale: what becomes of a sale is told once each, in its order, though the instance that told it stops.
func TestEventsTellTheSale(t *testing.T) {
	t.Parallel()
	db, redisURL, natsURL := pgtest.DB(t), pgtest.RedisURL(t), bustest.StartServer(t).URL
	serve := func() *shop.Instance {
		return shop.Serve(t, db.Config().ConnString(), redisURL, "--nats-url="+natsURL)
	}
	first := serve()
	in := serve()
	f := &feed{token: shop.Mint(t, 2, auth.Viewer), told: map[string][]map[string]any{}}
	sale := in.Plan(t, 2, time.Second)
	f.await(t, in, "item.opened", 1)
	require.Equal[any](t, "units left", f.told["item.opened"][0]["left"], 2.0)
	require.Equal[any](t, "the item", f.told["item.opened"][0]["item_id"], sale.ItemID)

	shop.NewBuyer(t, in, 71).Paid(t, sale.ItemID)
	leaves := shop.NewBuyer(t, in, 72)
	no := leaves.Order(t, sale.ItemID) // the last unit
	f.await(t, in, "item.sold_out", 1)
	require.Equal(t, "exit code", first.Stop(), 0)
	in.Do(t, http.MethodPost, "/api/v1/orders/"+no+"/cancel", leaves.Token, map[string]any{}, http.StatusOK)
	f.await(t, in, "item.units_back", 1)
	require.Equal[any](t, "units left", f.told["item.units_back"][0]["left"], 1.0)
	pgtest.Eventually(t, time.Minute, func() bool { _, code := shop.NewBuyer(t, in, 73).Rush(t, sale.ItemID); return code == "" }, "another shopper has it")
	f.await(t, in, "item.sold_out", 2)

	require.NoError(t, alarm.BooksBroken.Raise(t.Context(), db, "item 17", "One unit is missing."))
	require.NoError(t, alarm.BooksBroken.Raise(t.Context(), db, "item 17", "One unit is missing."))
	f.await(t, in, "alarm.raised", 1)
	in.Do(t, http.MethodPost, "/api/v1/admin/activities/"+sale.ActivityID+"/terminate", shop.Mint(t, 1, auth.Operator), nil, http.StatusOK)
	f.await(t, in, "session.ended", 1)
	require.Equal[any](t, "ended by an operator", f.told["session.ended"][0]["terminated"], true)
	require.Equal(t, "events about sessions and items", f.order, []string{"session.opened", "item.opened", "item.sold_out", "item.units_back", "item.sold_out", "session.ended"})
	var about int
	for _, a := range f.told["alarm.raised"] {
		if a["subject"] == "item 17" {
			about++
		}
	}
	require.Equal(t, "events of the incident", about, 1)
}

// hangingReceiver is a shop's backend that takes connections and answers none until answers closes.
type hangingReceiver struct {
	*httptest.Server
	answers chan struct{}

	mu    sync.Mutex
	hung  int // deliveries that got no answer
	taken []map[string]any
}

func hang(t *testing.T) *hangingReceiver {
	t.Helper()
	r := &hangingReceiver{answers: make(chan struct{})}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var e map[string]any
		_ = json.NewDecoder(req.Body).Decode(&e) // or the server does not see the client leave
		select {
		case <-r.answers:
		case <-req.Context().Done():
			r.mu.Lock()
			defer r.mu.Unlock()
			r.hung++
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.taken = append(r.taken, e)
	}))
	t.Cleanup(r.Close)
	return r
}

// TestReceiverThatHangsForAWholeSaleLosesNothing: when it answers again, each event of the sale comes, an order's by version.
func TestReceiverThatHangsForAWholeSaleLosesNothing(t *testing.T) {
	t.Parallel()
	r := hang(t)
	in := shop.Serve(t, pgtest.DB(t).Config().ConnString(), pgtest.RedisURL(t), "--webhook-private")
	admin := shop.Mint(t, 1, auth.Admin)
	in.Do(t, http.MethodPost, "/api/v1/admin/webhooks", admin, map[string]any{"url": r.URL}, http.StatusCreated)
	sale := in.Plan(t, 6, time.Second)
	f := &feed{token: shop.Mint(t, 2, auth.Viewer), told: map[string][]map[string]any{}}
	f.await(t, in, "item.opened", 1)
	for user := range int64(5) {
		shop.NewBuyer(t, in, 81+user).Paid(t, sale.ItemID)
	}
	leaves := shop.NewBuyer(t, in, 90)
	no := leaves.Order(t, sale.ItemID) // the last unit
	in.Do(t, http.MethodPost, "/api/v1/orders/"+no+"/cancel", leaves.Token, map[string]any{}, http.StatusOK)
	in.Do(t, http.MethodPost, "/api/v1/admin/activities/"+sale.ActivityID+"/terminate", shop.Mint(t, 1, auth.Operator), nil, http.StatusOK)
	f.await(t, in, "session.ended", 1)
	f.await(t, in, "order.closed", 1)
	f.await(t, in, "payment.captured", 5)
	webhook := func() map[string]any {
		all, _ := in.Do(t, http.MethodGet, "/api/v1/admin/webhooks", admin, nil, http.StatusOK)["data"].([]any)
		w, _ := all[0].(map[string]any)
		return w
	}
	pgtest.Eventually(t, time.Minute, func() bool { return webhook()["state"] == "failing" }, "the webhook fails")
	r.mu.Lock()
	if r.hung == 0 || len(r.taken) > 0 {
		t.Errorf("%d deliveries hung and %d events were taken during the sale", r.hung, len(r.taken))
	}
	r.mu.Unlock()
	close(r.answers)
	page := in.Do(t, http.MethodGet, "/api/v1/events?limit=500", f.token, nil, http.StatusOK)
	// An event that hung three times is tried again after two minutes.
	pgtest.Eventually(t, 3*time.Minute, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		came := map[any]bool{}
		for _, e := range r.taken {
			came[e["id"]] = true
		}
		return !slices.ContainsFunc(page["data"].([]any), func(e any) bool { return !came[e.(map[string]any)["id"]] }) //nolint:errcheck // as the contract has it
	}, "each event of the sale")

	r.mu.Lock()
	defer r.mu.Unlock()
	seen, last := map[any]bool{}, map[any]float64{}
	for _, e := range r.taken {
		if seen[e["id"]] {
			continue
		}
		seen[e["id"]] = true
		data, _ := e["data"].(map[string]any)
		if version, of := data["version"].(float64); of {
			if no := data["order_no"]; version < last[no] {
				t.Errorf("version %v of order %v came after %v", version, no, last[no])
			} else {
				last[no] = version
			}
		}
	}
	require.Equal(t, "orders at the receiver", len(last), 6)
}
