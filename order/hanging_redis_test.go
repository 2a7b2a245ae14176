package order

import (
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/store/redisx"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// wire is between the module and its Redis. While it is held, Redis hangs:
// connections stay open and new ones succeed, but no data gets through.
type wire struct{ sync.RWMutex }

// carry copies one direction of a connection until either end closes.
func (w *wire) carry(to, from net.Conn) {
	defer func() { _ = to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		w.RLock()
		_, err = to.Write(buf[:n])
		w.RUnlock()
		if err != nil {
			return
		}
	}
}

// overWire gives the module a private Redis behind the wire.
func overWire(t *testing.T, w *wire) func(*Config, *Deps) {
	t.Helper()
	server, err := url.Parse(pgtest.RedisURL(t))
	require.NoError(t, err)
	network, address, path := "tcp", server.Host, server.Path
	if server.Scheme == "unix" {
		network, address, path = "unix", server.Path, "/"+server.Query().Get("db")
	}
	door, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed right below
	require.NoError(t, err)
	var carriers sync.WaitGroup
	t.Cleanup(carriers.Wait)
	t.Cleanup(func() { _ = door.Close() })
	carriers.Go(func() {
		for {
			client, err := door.Accept()
			if err != nil {
				return
			}
			redis, err := net.Dial(network, address) //nolint:noctx // a local server
			if err != nil {
				t.Error(err)
				_ = client.Close()
				return
			}
			carriers.Go(func() { w.carry(redis, client) })
			carriers.Go(func() { w.carry(client, redis) })
		}
	})
	rdb, err := redisx.Open(t.Context(), (&url.URL{Scheme: "redis", User: server.User, Host: door.Addr().String(), Path: path}).String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	return func(_ *Config, d *Deps) { d.Redis = rdb }
}

// While Redis hangs, a shopper's order is answered from Postgres after one wait
// for Redis: the request does not wait again for the queue, which reads Redis
// too, nor for the filling of the cache.
func TestOrderIsReadWhileRedisHangs(t *testing.T) {
	t.Parallel()
	var w wire
	e := setupEdge(t, overWire(t, &w))
	m := e.placed(e.item(5), 1, 2)
	asked := 0
	e.line.asked = func() { asked++ }
	e.line.hangs = true
	w.Lock()
	defer w.Unlock()
	// The first request waits for the cache and for its filling, the second for
	// the cache; the bound is three times that.
	const bound = 3 * 3 * cacheRead
	begin := time.Now()
	e.follow("the first", m.Grants[0].No.String(), 1, http.StatusOK, "pending_payment")
	e.follow("the second", m.Grants[1].No.String(), 2, http.StatusOK, "pending_payment")
	if took := time.Since(begin); took > bound || asked > 0 {
		t.Errorf("two orders were answered after %s, with %d calls to the queue", took, asked)
	}
	begin = time.Now()
	if rec := e.get("/api/v1/orders", 1, auth.Shopper); rec.Code != http.StatusOK || time.Since(begin) > bound {
		t.Errorf("the list: %d after %s", rec.Code, time.Since(begin))
	}
	// Without an order the answer is "unknown", just as soon.
	begin = time.Now()
	e.follow("no order", ids.NewFor(1).String(), 1, http.StatusServiceUnavailable, `"code":"unknown"`)
	if took := time.Since(begin); took > bound {
		t.Errorf("unknown outcome, answered after %s", took)
	}
}

// A payment is captured while Redis hangs. The shopper reads it in a push; a
// poll then reads neither what this process remembers nor what Redis still has
// when it answers again.
func TestPollIsNotOlderThanAPush(t *testing.T) {
	t.Parallel()
	var w wire
	e := setupEdge(t, overWire(t, &w))
	no := e.placed(e.item(5), 1).Grants[0].No
	w.Lock()
	func() {
		defer w.Unlock()
		e.follow("before", no.String(), 1, http.StatusOK, "pending_payment")
		e.exec(`UPDATE orders.orders SET status = 'paid', version = 2 WHERE order_no = $1`, no)
		paid := []orderevent.Order{{No: no, UserID: 1, Status: orderevent.StatusPaid, Version: 2}}
		e.BeforePush(t.Context(), paid, paid)
		e.BeforePush(t.Context(), []orderevent.Order{{No: no, UserID: 1, Status: orderevent.StatusPending, Version: 1}}, nil) // delivered again
		e.follow("while Redis hangs", no.String(), 1, http.StatusOK, `"status":"paid"`, `"version":2`)
	}()
	e.follow("when Redis answers", no.String(), 1, http.StatusOK, `"status":"paid"`, `"version":2`)
}

// A push is on its way to a socket of this instance. Another instance, which has not seen
// the event yet, reads that version in the cache.
func TestPollOnAnotherInstanceIsNotOlderThanAPush(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	no := e.placed(e.item(5), 1).Grants[0].No
	e.follow("before", no.String(), 1, http.StatusOK, "pending_payment")
	paid := []orderevent.Order{{No: no, UserID: 1, Status: orderevent.StatusPaid, Version: 2}}
	e.BeforePush(t.Context(), paid, paid)
	switch found, err := e.cache.read(t.Context(), []ids.ID{no}); {
	case err != nil:
		t.Fatal(err)
	case len(found.orders) != 1 || found.orders[0].Version != 2:
		t.Errorf("the cache has %+v", found.orders)
	}
}
