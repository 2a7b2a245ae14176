package order

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/store/redisx"
	"stampede/platform/workshop/linktest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// overLink gives the module a private Redis behind a link.
func overLink(t *testing.T) (*linktest.Link, func(*Config, *Deps)) {
	t.Helper()
	server, err := redis.ParseURL(pgtest.RedisURL(t))
	require.NoError(t, err)
	link := linktest.New(t, server.Network, server.Addr)
	rdb, err := redisx.Open(t.Context(), fmt.Sprintf("redis://%s/%d", link.Addr(), server.DB))
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	return link, func(_ *Config, d *Deps) { d.Redis = rdb }
}

// While Redis hangs, a shopper's order is answered from Postgres after one wait
// for Redis: the request does not wait again for the queue, which reads Redis
// too, nor for the filling of the cache.
func TestOrderIsReadWhileRedisHangs(t *testing.T) {
	t.Parallel()
	link, over := overLink(t)
	e := setupEdge(t, over)
	m := e.placed(e.item(5), 1, 2)
	asked := 0
	e.line.asked = func() { asked++ }
	e.line.hangs = true
	link.Mute(true)
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

// A payment is captured while Redis is away. The shopper reads it in a push; a
// poll then reads neither what this process remembers nor what Redis still has
// when it answers again.
func TestPollIsNotOlderThanAPush(t *testing.T) {
	t.Parallel()
	link, over := overLink(t)
	e := setupEdge(t, over)
	no := e.placed(e.item(5), 1).Grants[0].No
	link.Cut(true)
	e.follow("before", no.String(), 1, http.StatusOK, "pending_payment")
	e.exec(`UPDATE orders.orders SET status = 'paid', version = 2 WHERE order_no = $1`, no)
	paid := []orderevent.Order{{No: no, UserID: 1, Status: orderevent.StatusPaid, Version: 2}}
	e.BeforePush(t.Context(), paid, paid)
	e.BeforePush(t.Context(), []orderevent.Order{{No: no, UserID: 1, Status: orderevent.StatusPending, Version: 1}}, nil) // delivered again
	e.follow("while Redis is away", no.String(), 1, http.StatusOK, `"status":"paid"`, `"version":2`)
	link.Cut(false)
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
	cached, _, err := e.cache.get(t.Context(), no)
	require.NoError(t, err)
	require.Equal(t, "the version in the cache", cached.Version, 2)
}
