package kill

import (
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
	"stampede/platform/workshop/tooltest"
)

// TestFrozenInstanceStopsNoItem freezes one of two instances behind nginx while
// its transaction has an item's stock row. The other sells and closes on once
// Postgres has ended that transaction, and nothing is done twice when the frozen
// one wakes.
func TestFrozenInstanceStopsNoItem(t *testing.T) {
	t.Parallel()
	program := tooltest.Command(t, "nginx")
	databaseURL, redisURL, natsURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t), bustest.StartServer(t).URL
	bounded := databaseURL + "&idle_in_transaction_session_timeout=1500"
	victim := &mortal{addr: shop.FreeAddr(t), ready: serveIsReady, databaseURL: databaseURL, args: append([]string{
		"serve", "--database-url=" + bounded, "--redis-url=" + redisURL, "--nats-url=" + natsURL, "--sandbox-bank", "--max-conns=28", "--trusted-proxies=127.0.0.1",
	}, hurried...)}
	other := shop.Serve(t, databaseURL, redisURL, "--nats-url="+natsURL, "--trusted-proxies=127.0.0.1")
	p := victim.start(t, "")
	if !victim.await(t, p) {
		t.Fatal("the instance exited")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := newRushers(t, rand.New(rand.NewPCG(seed, 1)), other.URL)
	if !c.plan() {
		t.Fatal("no sale")
	}
	frozen := &shop.Instance{URL: p.URL}
	frozen.AwaitLoaded(t, c.sale.ItemID)
	other.AwaitLoaded(t, c.sale.ItemID)
	c.wave(nil)
	holder := c.newcomer()
	holder.role = leaves
	if c.rush(holder); !holder.told || !c.follow(holder, 30*time.Second) {
		t.Fatalf("no order: %s", holder)
	}
	client, _ := shop.StartNginx(t, program, frozen, other)
	client.Timeout = time.Second // half of the requests meet the frozen instance
	c.client, c.url = client, shop.SaleName

	conn := pgtest.Connect(t, databaseURL)
	wake := func() { _ = p.Cmd.Process.Signal(syscall.SIGCONT) }
	t.Cleanup(wake) // before the process is asked to end
	freezeInTransaction(t, c, conn, p.Cmd.Process.Pid, other)
	began := time.Now()

	// The other instance sells and closes on.
	c.sellOne()
	buyer := c.shoppers[len(c.shoppers)-1]
	if !c.becomes(buyer, statusPending, time.Minute) {
		t.Errorf("no order while an instance is frozen: %s", buyer)
	}
	sold := time.Since(began)
	// Directly: a client that gives up after a second leaves the claim of the close for half a minute.
	if !within(time.Minute, func() bool {
		status, _ := other.Call(t, http.MethodPost, "/api/v1/orders/"+holder.no+"/cancel", holder.token, nil)
		return status == http.StatusOK
	}) || !c.becomes(holder, statusClosed, time.Minute) {
		t.Errorf("not closed while an instance is frozen: %s", holder)
	}
	t.Logf("sold again after %s, closed after %s", sold, time.Since(began))
	wake()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		status, _ := frozen.Call(t, http.MethodGet, "/api/v1/orders/"+holder.no, holder.token, nil)
		return status == http.StatusOK
	}, "the instance that was frozen to answer")
	client.Timeout = 15 * time.Second
	c.wave(nil)
	c.each(func(p *rusher) {
		if p.told && !c.follow(p, 30*time.Second) {
			t.Errorf("no outcome for %s", p)
		}
	})
	c.checkRows(conn)
	victim.verify(t, c.writeLog())
}

// freezeInTransaction stops the process while one of its transactions has the
// item's stock row. The order of whichever instance gets the grant waits for that
// row; if it was the other's, another shopper tries.
func freezeInTransaction(t *testing.T, c *rushers, conn *pgx.Conn, pid int, other *shop.Instance) {
	t.Helper()
	through := c.url
	defer func() { c.url = through }()
	c.url = other.URL
	for range 50 {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		pgtest.Exec(t, tx, `SELECT 1 FROM inventory.stock WHERE item_id = $1::text::bigint FOR UPDATE`, c.sale.ItemID)
		s := c.newcomer()
		s.role = leaves
		if c.rush(s); !s.told {
			t.Fatalf("not in line: %s", s)
		}
		pgtest.Eventually(t, 30*time.Second, func() bool {
			return pgtest.Read[bool](t, tx, `SELECT EXISTS (SELECT FROM pg_locks w JOIN pg_locks r USING (pid) WHERE NOT w.granted AND r.relation = 'inventory.stock'::regclass
				AND r.database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
		}, "an order to wait for the stock row")
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		require.NoError(t, tx.Rollback(t.Context()))
		var written, idle bool
		pgtest.Eventually(t, 30*time.Second, func() bool {
			err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM orders.orders WHERE order_no = $1::text::uuid),
				EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction' AND state_change < now() - interval '200 ms')`, s.no).
				Scan(&written, &idle)
			return err == nil && (written || idle)
		}, "the order or an idle transaction")
		if idle {
			return
		}
		require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	}
	t.Fatal("the frozen instance got no grant")
}
