package order

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// statements counts the statements that a pool sends to Postgres.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted is an edge that counts its statements to Postgres.
func counted(t *testing.T) (*edge, *statements) {
	t.Helper()
	count := new(statements)
	return setupEdge(t, func(_ *Config, d *Deps) {
		cfg := d.DB.Config()
		cfg.ConnConfig.Tracer = count
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		d.DB = pool
	}), count
}

// crowd is how many readers read at the same time.
const crowd = 400

// storm has many shoppers read an order at the same moment and returns the
// statements that reached Postgres. of names the i-th reader and the number to
// read. Readers that the cache does not answer wait until as many have arrived as
// missed says, as with a slow Postgres.
func (e *edge) storm(count *statements, want, missed int, of func(i int) (user int64, no ids.ID)) int64 {
	e.t.Helper()
	gate, answer := make(chan struct{}), e.loads.Answer
	e.loads.Answer = func(readers []*lookup) { <-gate; answer(readers) }
	free := sync.OnceFunc(func() { close(gate) })
	var arrived atomic.Int64
	e.line.asked = func() { arrived.Add(1) }
	// A reader that gave up on Redis reads Postgres before the queue.
	slow := func() int64 { return int64(testutil.ToFloat64(e.metrics.cacheReads.WithLabelValues("error"))) }
	slowBefore := slow()
	if missed == 0 {
		free()
	}
	before := count.n.Load()
	var readers sync.WaitGroup
	for i := range crowd {
		readers.Go(func() {
			user, no := of(i)
			if rec := e.get("/api/v1/orders/"+no.String(), user, auth.Shopper); rec.Code != want {
				e.t.Errorf("reader %d: %d %s", i, rec.Code, rec.Body)
			}
		})
	}
	if missed > 0 {
		pgtest.Eventually(e.t, time.Minute, func() bool { return arrived.Load()+slow()-slowBefore >= int64(missed) }, "all readers that miss the cache arrive")
		free()
	}
	readers.Wait()
	e.loads.Answer = answer
	return count.n.Load() - before
}

// batches is how many statements a storm on that many orders may take: full
// queries, and a few for readers that had missed the cache and were not waiting
// for a query yet.
const batches = (crowd+loadLimit-1)/loadLimit + 2*loadsAtOnce

// Penetration: numbers that were never minted are looked up in Postgres many at
// a time, and numbers of other users not at all.
func TestUnknownNumbersShareQueries(t *testing.T) {
	t.Parallel()
	e, count := counted(t)
	n := e.storm(count, http.StatusNotFound, crowd, func(int) (int64, ids.ID) { return 1, ids.NewFor(1) })
	most := int64(batches)
	if testutil.ToFloat64(e.metrics.cacheReads.WithLabelValues("error")) > 0 {
		most *= 2 // readers that gave up on Redis read Postgres before the queue and after it
	}
	if n == 0 || n > most {
		t.Errorf("%d unknown numbers took %d statements", crowd, n)
	}
	foreign := int64(2) // in another bucket than user 1
	for ids.Bucket(foreign) == ids.Bucket(1) {
		foreign++
	}
	n = e.storm(count, http.StatusNotFound, 0, func(int) (int64, ids.ID) { return 1, ids.NewFor(foreign) })
	require.Equal(t, "statements for numbers of other users", n, 0)
}

// Breakdown: the one order that every reader reads drops out of the cache.
func TestAForgottenOrderIsReadOnce(t *testing.T) {
	t.Parallel()
	e, count := counted(t)
	no := e.placed(e.item(1), 1).Grants[0].No
	n := e.storm(count, http.StatusOK, 0, func(int) (int64, ids.ID) { return 1, no })
	// On a machine that is busy with other tests Redis may be too slow for some readers; only they may query
	// Postgres.
	if slow := int64(testutil.ToFloat64(e.metrics.cacheReads.WithLabelValues("error"))); n > slow {
		t.Errorf("an order in the cache took %d statements, %d readers timed out on Redis", n, slow)
	}
	e.forget(t.Context(), no)
	// One reader queries for all; a reader that had missed the cache and was not waiting yet may query once
	// more.
	if n = e.storm(count, http.StatusOK, crowd, func(int) (int64, ids.ID) { return 1, no }); n == 0 || n > 2*loadsAtOnce {
		t.Errorf("%d readers of one order took %d statements", crowd, n)
	}
}

// Avalanche: the orders of a whole rush drop out of the cache together. They
// are read back many at a time; and their lifetimes are spread to begin with.
func TestAForgottenRushIsReadInBatches(t *testing.T) {
	t.Parallel()
	e, count := counted(t)
	users := usersUpTo(crowd)
	m := e.placed(e.item(crowd), users...)
	lives := map[time.Duration]bool{}
	for _, g := range m.Grants {
		key := placeOf(g.No).keys()[0]
		left, err := e.rdb.TTL(t.Context(), key).Result()
		if err != nil || left < e.cfg.CacheTTL-time.Minute || left > e.cfg.CacheTTL+e.cfg.CacheTTL/lifeSpread {
			t.Fatalf("%s expires in %s, %v", key, left, err)
		}
		lives[left.Truncate(time.Minute)] = true
	}
	if len(lives) < 2 {
		t.Error("all orders of a rush expire in the same minute")
	}
	for _, g := range m.Grants {
		require.NoError(t, e.rdb.Del(t.Context(), placeOf(g.No).keys()...).Err())
	}
	if n := e.storm(count, http.StatusOK, crowd, func(i int) (int64, ids.ID) { return users[i], m.Grants[i].No }); n == 0 || n > batches {
		t.Errorf("%d readers of different orders took %d statements", crowd, n)
	}
}
