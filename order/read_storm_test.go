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

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
)

// statements counts what a pool asks Postgres.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted is an edge whose statements on Postgres are counted.
func counted(t *testing.T) (*edge, *statements) {
	t.Helper()
	count := new(statements)
	return setupEdge(t, func(_ *Config, d *Deps) {
		cfg := d.DB.Config()
		cfg.ConnConfig.Tracer = count
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		d.DB = pool
	}), count
}

// crowd is how many read at once.
const crowd = 400

// storm has everybody read an order at the same moment and returns the statements
// that reached Postgres. of names the i-th reader and the number asked for.
// Whoever is not answered by the cache waits until as many have come as missed
// says, as behind a Postgres that is slow.
func (e *edge) storm(count *statements, want, missed int, of func(i int) (user int64, no ids.ID)) int64 {
	e.t.Helper()
	for range loadSlots {
		e.loader.slots <- struct{}{}
	}
	free := func() {
		for range loadSlots {
			<-e.loader.slots
		}
	}
	var arrived atomic.Int64
	e.line.asked = func() { arrived.Add(1) }
	// Whoever Redis is too slow for asks Postgres before the queue.
	slow := func() int64 { return int64(counter(e.t, e.metrics.cacheReads.WithLabelValues("error"))) }
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
		pgtest.Eventually(e.t, time.Minute, func() bool { return arrived.Load()+slow()-slowBefore >= int64(missed) }, "everybody who misses the cache has come")
		free()
	}
	readers.Wait()
	return count.n.Load() - before
}

// batches is what a storm on that many orders may take: full queries, and a few
// for those that had missed the cache and did not stand in line yet.
const batches = (crowd+loadLimit-1)/loadLimit + 2*loadSlots

// Penetration: numbers that were never minted are looked for in Postgres many at
// a time, and numbers of others not at all.
func TestUnknownNumbersShareQueries(t *testing.T) {
	t.Parallel()
	e, count := counted(t)
	n := e.storm(count, http.StatusNotFound, crowd, func(int) (int64, ids.ID) { return 1, ids.NewFor(1) })
	most := int64(batches)
	if counter(t, e.metrics.cacheReads.WithLabelValues("error")) > 0 {
		most *= 2 // whoever Redis was too slow for asked Postgres before the queue and after it
	}
	if n == 0 || n > most {
		t.Errorf("%d unknown numbers took %d statements", crowd, n)
	}
	foreign := int64(2) // in another bucket than user 1
	for ids.Bucket(foreign) == ids.Bucket(1) {
		foreign++
	}
	if n := e.storm(count, http.StatusNotFound, 0, func(int) (int64, ids.ID) { return 1, ids.NewFor(foreign) }); n != 0 {
		t.Errorf("numbers of others took %d statements", n)
	}
}

// Breakdown: the one order that everybody reads falls out of the cache.
func TestAForgottenOrderIsReadOnce(t *testing.T) {
	t.Parallel()
	e, count := counted(t)
	no := e.placed(e.item(1), 1).Grants[0].No
	n := e.storm(count, http.StatusOK, 0, func(int) (int64, ids.ID) { return 1, no })
	// On a machine that is busy with other tests Redis may be too slow for some; they alone may ask Postgres.
	if slow := int64(counter(t, e.metrics.cacheReads.WithLabelValues("error"))); n > slow {
		t.Errorf("an order in the cache took %d statements, %d readers waited for Redis in vain", n, slow)
	}
	e.forget(t.Context(), no)
	// One reads it for all; whoever had missed the cache and did not stand in line yet may read it once more.
	if n = e.storm(count, http.StatusOK, crowd, func(int) (int64, ids.ID) { return 1, no }); n == 0 || n > 2*loadSlots {
		t.Errorf("%d readers of one order took %d statements", crowd, n)
	}
}

// Avalanche: the orders of a whole rush fall out of the cache at once. They are
// read back many at a time; and in the first place they do not end together.
func TestAForgottenRushIsReadInBatches(t *testing.T) {
	t.Parallel()
	e, count := counted(t)
	users := make([]int64, crowd)
	for i := range users {
		users[i] = int64(i) + 1
	}
	m := e.placed(e.item(crowd), users...)
	lives := map[time.Duration]bool{}
	for _, g := range m.Grants {
		key := placeOf(g.No).keys()[0]
		left, err := e.rdb.TTL(t.Context(), key).Result()
		if err != nil || left < e.cfg.CacheTTL-time.Minute || left > e.cfg.CacheTTL+e.cfg.CacheTTL/lifeSpread {
			t.Fatalf("%s ends in %s, %v", key, left, err)
		}
		lives[left.Truncate(time.Minute)] = true
	}
	if len(lives) < 2 {
		t.Error("all orders of a rush end in the same minute")
	}
	for _, g := range m.Grants {
		if err := e.rdb.Del(t.Context(), placeOf(g.No).keys()...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n := e.storm(count, http.StatusOK, crowd, func(i int) (int64, ids.ID) { return users[i], m.Grants[i].No }); n == 0 || n > batches {
		t.Errorf("%d readers of as many orders took %d statements", crowd, n)
	}
}
