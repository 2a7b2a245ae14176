package sale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"stampede/platform/edge/auth"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// crowd records the answers to this test's shoppers, and their actions.
type crowd struct {
	rushes  map[string]int64 // answers to rushes, by code
	ofItem  map[string]int64 // those of them that name the item
	paths   map[string]int64 // answers to requests for a path, by code
	orders  int64            // shoppers that learned of an order
	started int64            // payments
	paid    int64
	closed  int64
	pushed  atomic.Int64 // messages that sockets received
	due     int64        // messages that sockets must receive
}

func (c *crowd) told(code string) {
	c.rushes[code]++
	if code != "bad-path" {
		c.ofItem[code]++
	}
}

// standbyMayRead reads everything that --database-read-url is for.
func standbyMayRead(t *testing.T, in *shop.Instance, sale loadgen.Planned) {
	t.Helper()
	reads := func() int64 {
		return shop.Scrape(t, in.OpsURL(t)).Sum(t, "stampede_standby_reads_total{server=primary}")
	}
	for _, path := range []string{
		"orders", "orders/export", "refunds", "audit", "items/" + sale.ItemID + "/reservations", "items/" + sale.ItemID + "/funnel?step=10",
		"sessions/" + sale.SessionID + "/report?format=json", "statements/2026-01-01",
	} {
		before := reads()
		a := httpxtest.Send(t, shop.Checked(t), http.MethodGet, in.URL+"/api/v1/admin/"+path, shop.Mint(t, 1, auth.Operator), "")
		require.Equal(t, "the status of "+path, a.Status, http.StatusOK)
		if reads() == before {
			t.Errorf("a standby would not read admin/%s", path)
		}
	}
}

// listen opens a socket for the user and counts what it receives.
func (c *crowd) listen(t *testing.T, in *shop.Instance, user int64) {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(in.URL, "http")+"/api/v1/ws", &websocket.DialOptions{
		Subprotocols: []string{"stampede.v1", "bearer." + shop.Mint(t, user, auth.Shopper)},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for {
			_, message, err := conn.Read(ctx)
			if err != nil {
				return
			}
			if bytes.Contains(message, []byte(`"order"`)) { // not the greeting
				c.pushed.Add(1)
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait(); _ = conn.CloseNow() })
}

// path requests a path and counts the answer; it returns "" if refused.
func (c *crowd) path(t *testing.T, b shop.Buyer, item string, quantity int) string {
	t.Helper()
	status, doc := b.In.Call(t, http.MethodPost, "/api/v1/items/"+item+"/rush-path", b.Token, map[string]int{"quantity": quantity})
	if status != http.StatusOK {
		c.paths[doc["code"].(string)]++
		return ""
	}
	c.paths["issued"]++
	return doc["path"].(string)
}

// send sends a path and returns the order number, "" if refused.
func (c *crowd) send(t *testing.T, b shop.Buyer, path string, again bool) string {
	t.Helper()
	status, doc := b.In.Call(t, http.MethodPost, "/api/v1/rush/"+path, "", nil)
	switch {
	case status != http.StatusAccepted:
		c.told(doc["code"].(string))
		return ""
	case again:
		c.told("repeated")
	default:
		c.told("queued")
		c.orders++
	}
	return doc["order_no"].(string)
}

// playByHand does what loadgen's shoppers do not: repetitions, refused paths, a
// cancellation.
func (c *crowd) playByHand(t *testing.T, in *shop.Instance, item string) {
	t.Helper()
	for user := int64(1); user <= 5; user++ {
		c.listen(t, in, user)
		b := shop.NewBuyer(t, in, user)
		path := c.path(t, b, item, 1)
		no := c.send(t, b, path, false)
		c.send(t, b, path, true) // the answer was lost
		b.AwaitStatus(t, no, "pending_payment", 10*time.Second)
		c.due++
		c.send(t, b, path, true)
		c.send(t, b, c.path(t, b, item, 1), false) // already-bought
		c.send(t, b, path[:len(path)-2]+"zz", false)
		c.path(t, b, item, 900) // over-limit
		c.path(t, b, "999999", 1)
		if user == 1 {
			in.Do(t, http.MethodPost, "/api/v1/orders/"+no+"/cancel", b.Token, map[string]string{}, http.StatusOK)
			c.closed++
			c.due++
		}
	}
}

// playRush runs a loadgen crowd, and adds its log to the record.
func (c *crowd) playRush(t *testing.T, in *shop.Instance, item string, shoppers int, stores ...string) {
	t.Helper()
	const first = int64(1000)
	for user := first; user < first+20; user++ {
		c.listen(t, in, user)
	}
	log := filepath.Join(t.TempDir(), "client.jsonl")
	out := shop.Command(t, 0, append([]string{
		"rush", "--item=" + item, fmt.Sprintf("--shoppers=%d", shoppers), "--first-user=1000", "--conns=24", "--sockets=0", "--pay=50%", "--json",
		"--url=" + in.URL, "--signing-key=" + shop.Key, "--log=" + log, "--data=" + t.TempDir(),
	}, stores...)...)
	var report struct{ Troubles map[string]int64 }
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, fmt.Sprint("troubles ", report.Troubles), len(report.Troubles), 0)
	entries, err := loadgen.ReadLogFile(log)
	require.NoError(t, err)
	require.Equal(t, "entries in the client log", len(entries), shoppers)
	for _, e := range entries {
		c.paths["issued"]++
		c.told(e.Answer)
		if e.Answer != "queued" {
			continue
		}
		c.orders++
		listens := e.UserID < first+20
		if listens {
			c.due++
		}
		if e.Status == "paid" {
			c.started++
			c.paid++
			if listens {
				c.due++
			}
		}
	}
}

// stations are the funnel's counters and their expected values, from the first
// step to the last.
func (c *crowd) stations() map[string]int64 {
	granted := c.rushes["queued"]
	return map[string]int64{
		"stampede_seckill_paths_total{code=issued}":                      c.paths["issued"],
		"stampede_seckill_rush_answers_total{code=queued}":               granted,
		"stampede_inventory_verdicts_total{verdict=granted}":             granted,
		"stampede_seckill_grants_published_total{outcome=stored}":        granted,
		"stampede_seckill_grants_published_total{outcome=unknown}":       0,
		"stampede_order_grants_written_total{result=created}":            c.orders,
		"stampede_order_grants_written_total{result=duplicate}":          0,
		"stampede_order_grants_written_total{result=shortfall}":          0,
		"stampede_order_grants_written_total{result=interrupted}":        0,
		"stampede_order_grants_written_total{result=malformed}":          0,
		"stampede_order_visible_total":                                   c.orders,
		"stampede_notify_pushes_total":                                   c.due,
		"stampede_payment_started_total":                                 c.started,
		"stampede_payment_captures_total{provider=sandbox,outcome=paid}": c.paid,
		"stampede_order_changes_total{status=paid}":                      c.paid,
		"stampede_order_changes_total{status=closed,reason=canceled}":    c.closed,
		"stampede_order_changes_total{status=closed,reason=timeout}":     0,
		"stampede_inventory_holds_ended_total{end=released}":             c.closed,
		"stampede_inventory_holds_ended_total{end=committed}":            c.paid,
	}
}

// differences compares all counters of all instances with the record.
func (c *crowd) differences(t *testing.T, ops ...string) []string {
	t.Helper()
	s := shop.Scraped{}
	for _, one := range ops {
		s.Join(shop.Scrape(t, one))
	}
	var all []string
	for series, want := range c.stations() {
		if got := s.Sum(t, series); got != want {
			all = append(all, fmt.Sprintf("%s = %d, clients counted %d", series, got, want))
		}
	}
	for name, want := range map[string]map[string]int64{"stampede_seckill_rush_answers_total": c.rushes, "stampede_seckill_paths_total": c.paths} {
		if got := s.Labelled(name, "code"); !maps.Equal(got, want) {
			all = append(all, fmt.Sprintf("%s = %v, clients counted %v", name, got, want))
		}
	}
	if got := c.pushed.Load(); got != c.due {
		all = append(all, fmt.Sprintf("sockets received %d messages, %d are due", got, c.due))
	}
	slices.Sort(all)
	return all
}

// merged compares the operator's funnel, as an instance answers it, with the record.
func (c *crowd) merged(t *testing.T, in *shop.Instance, route string) []string {
	t.Helper()
	doc := in.Do(t, http.MethodGet, "/api/v1/admin/"+route, shop.Mint(t, 1, auth.Viewer), nil, http.StatusOK)
	var all []string
	for stage, want := range map[string]map[string]int64{
		"answers": c.ofItem, "paths": c.pathsOfItem(), "grants": {"stored": c.rushes["queued"]},
		"orders": {"created": c.orders, "paid": c.paid, "closed-canceled": c.closed}, "payments": {"started": c.started, "paid": c.paid},
		"units": {"created": c.orders, "paid": c.paid, "closed-canceled": c.closed}, "refunds": {},
	} {
		got := map[string]int64{}
		for code, n := range doc[stage].(map[string]any) {
			got[code] = int64(n.(float64))
		}
		if !maps.Equal(got, want) {
			all = append(all, fmt.Sprintf("%s: %s = %v, clients counted %v", route, stage, got, want))
		}
	}
	if doc["pushes"] != float64(c.due) || doc["emptied_at"] == nil {
		all = append(all, fmt.Sprintf("%s: %v pushes, %d are due, emptied at %v", route, doc["pushes"], c.due, doc["emptied_at"]))
	}
	return all
}

// pathsOfItem are the answers to requests for a path without those for an unknown item.
func (c *crowd) pathsOfItem() map[string]int64 {
	known := maps.Clone(c.paths)
	delete(known, "not-found")
	return known
}

// TestFunnelCountersEqualTheClientLog plays a small sale with every kind of
// event on two instances and compares each counter of /metrics, and the operator's
// funnel, with the client log: they must be equal, and stay so when an instance stops.
func TestFunnelCountersEqualTheClientLog(t *testing.T) {
	t.Parallel()
	pool, redisURL, natsURL := pgtest.DB(t), pgtest.RedisURL(t), bustest.StartServer(t).URL
	databaseURL := pool.Config().ConnString()
	in := shop.Serve(t, databaseURL, redisURL, "--nats-url="+natsURL)
	other := shop.Serve(t, databaseURL, redisURL, "--nats-url="+natsURL)
	ops := in.OpsURL(t)
	sale := in.Plan(t, 45, 0)
	c := &crowd{rushes: map[string]int64{}, ofItem: map[string]int64{}, paths: map[string]int64{}}
	other.AwaitLoaded(t, sale.ItemID)
	// A rate that keeps no one waiting, so that the dashboard's panel of it has data.
	in.Do(t, http.MethodPut, "/api/v1/admin/items/"+sale.ItemID+"/admission", shop.Mint(t, 1, auth.Operator), map[string]int{"per_second": 1_000_000}, http.StatusOK)

	c.playByHand(t, other, sale.ItemID)
	item := "items/" + sale.ItemID + "/funnel"
	pgtest.Eventually(t, 30*time.Second, func() bool {
		_, funnel := in.Call(t, http.MethodGet, "/api/v1/admin/"+item, shop.Mint(t, 1, auth.Operator), nil)
		books, _ := funnel["books"].(map[string]any)
		return books["remaining"] == 41.0 // including the canceled one
	}, "units to become free")
	c.playRush(t, in, sale.ItemID, 300, "--database-url="+databaseURL, "--redis-url="+redisURL)
	if c.rushes["queued"] != 46 || c.rushes["all-held"]+c.rushes["sold-out"] == 0 || c.paid == 0 || c.rushes["repeated"] != 10 || c.rushes["already-bought"] != 5 {
		t.Fatalf("answers %v, %d paid; the sale must contain every kind of event", c.rushes, c.paid)
	}

	// The work after an answer, from the cache to the commit, finishes shortly
	// afterwards.
	var last []string
	defer func() {
		if t.Failed() {
			t.Logf("differences:\n%s", strings.Join(last, "\n"))
		}
	}()
	pgtest.Eventually(t, 30*time.Second, func() bool { last = c.differences(t, ops, other.OpsURL(t)); return len(last) == 0 }, "every counter equals the client log")

	pgtest.Eventually(t, 30*time.Second, func() bool { last = c.merged(t, in, item); return len(last) == 0 }, "the merged funnel equals the client log")
	last = nil
	standbyMayRead(t, in, sale)
	exported := shop.Scrape(t, other.OpsURL(t))
	require.Equal(t, "exit code", other.Stop(), 0)
	for _, route := range []string{item, "sessions/" + sale.SessionID + "/funnel?step=10", "activities/" + sale.ActivityID + "/funnel"} {
		require.Equal(t, "differences after the stop of an instance", c.merged(t, in, route), nil)
	}
	funnel := in.Do(t, http.MethodGet, "/api/v1/admin/"+item, shop.Mint(t, 1, auth.Operator), nil, http.StatusOK)
	books, _ := funnel["books"].(map[string]any)
	for what, want := range map[string]int64{"held": c.orders - c.paid - c.closed, "sold": c.paid, "available": 0, "difference": 0, "total": 45} {
		require.Equal(t, "the operator's count of "+what, books[what], any(float64(want)))
	}

	// Raise an alarm, so that the dashboard's alarm panel has data.
	require.NoError(t, alarm.BooksBroken.Raise(t.Context(), pool, "item "+sale.ItemID, "raised by a test"))
	exported.Join(shop.Scrape(t, ops))
	checkDashboard(t, exported)
}
