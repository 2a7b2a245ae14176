package order

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

func testCache(t testing.TB, rdb redis.UniversalClient, change ...func(*Config)) *cache {
	t.Helper()
	m := newMetrics(prometheus.NewRegistry(), nil)
	cfg := DefaultConfig()
	for _, f := range change {
		f(&cfg)
	}
	return newCache(rdb, cfg, m)
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := testCache(t, pgtest.Redis(t), func(cfg *Config) { cfg.CacheMaxOrders = 10_000 })
	long := 0
	for range 300 {
		orders := make([]orderevent.Order, 100)
		for i := range orders {
			orders[i] = orderevent.Order{No: ids.NewFor(int64(i)), Version: 1}
		}
		require.NoError(t, c.putNew(t.Context(), orders, visibleByWriter))
		places := placeOf(orders[99].No).keys()
		if c.rdb.HExists(t.Context(), places[0], string(orders[99].No[:])).Val() {
			long += len(orders)
			continue
		}
		if left := c.rdb.TTL(t.Context(), places[1]).Val(); left <= 0 || left > time.Minute {
			t.Fatalf("an order beyond the bound stays for %v", left)
		}
		require.NoError(t, c.put(t.Context(), orders))
	}
	if long < 4900 || long > 10_000 {
		t.Errorf("%d of 30000 orders are long-lived, want at most 10000", long)
	}
	if stored, err := c.scan(t.Context()); err != nil || len(stored) < sampleLimit {
		t.Errorf("%d of 30000 orders are readable right after the rush: %v", len(stored), err)
	}
}

func starve(t *testing.T, rdb *redis.Client, on bool) {
	t.Helper()
	limit := "0"
	if on {
		limit = "1"
	}
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", limit).Err())
}

func TestCacheWithoutMemoryDropsRatherThanServesStale(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client
	c := testCache(t, rdb)
	ctx := t.Context()
	o := orderevent.Order{No: ids.NewFor(1), Version: 1, Status: orderevent.StatusPending}
	require.NoError(t, c.put(ctx, []orderevent.Order{o}))
	starve(t, rdb, true)
	o.Version, o.Status = 2, orderevent.StatusPaid
	require.NoError(t, c.put(ctx, []orderevent.Order{o})) // a change without memory
	if got, ok, err := c.get(ctx, o.No); ok || err != nil {
		t.Fatalf("the old version is still served: %+v, %v", got, err)
	}
	fresh := orderevent.Order{No: ids.NewFor(2), Version: 1}
	require.NoError(t, c.putNew(ctx, []orderevent.Order{fresh}, visibleByWriter))
	if noRoom, err := c.fill(ctx, []orderevent.Order{fresh}); err != nil || noRoom != 1 {
		t.Errorf("a fill without memory: %d, %v", noRoom, err)
	}
	starve(t, rdb, false)
	require.NoError(t, c.put(ctx, []orderevent.Order{o}))
	if got, ok, _ := c.get(ctx, o.No); !ok || got.Version != 2 {
		t.Error("not stored once there is memory")
	}
}

func TestOrdersAreReadWithoutRedisMemory(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client
	s := setup(t, func(_ *Config, d *Deps) { d.Redis = rdb })
	starve(t, rdb, true)
	m := s.placed(s.item(5), 1)
	no := m.Grants[0].No
	for range 50 {
		o, ok, err := s.Get(t.Context(), no)
		if err != nil || !ok || o.Status != orderevent.StatusPending {
			t.Fatalf("%+v, %v, %v", o, ok, err)
		}
	}
	// What Redis cannot keep, the process keeps, for a second at a time.
	if loads := testutil.ToFloat64(s.metrics.loads); loads > 10 {
		t.Errorf("50 reads of one order queried Postgres %.0f times", loads)
	}
	require.Equal(t, "paid", s.pay(no), true)
	pgtest.Eventually(t, 3*time.Second, func() bool {
		o, _, err := s.Get(t.Context(), no)
		return err == nil && o.Status == orderevent.StatusPaid
	}, "the payment shows")
	require.NoError(t, rdb.Close()) // and without any Redis
	if o, ok, err := s.Get(t.Context(), no); err != nil || !ok || o.Status != orderevent.StatusPaid {
		t.Errorf("%+v, %v, %v", o, ok, err)
	}
}

// TestCacheFollowsEvents covers a process that died right after its commit:
// only the outbox is left to update the cache.
func TestCacheFollowsEvents(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(5)
	m := s.placed(b, 1, 2)
	closed, paid := m.Grants[0].No, m.Grants[1].No
	s.forget(t.Context(), closed)
	s.forget(t.Context(), paid)
	stop, err := s.bus.Subscribe(t.Context(), s.Subscriptions(), func(_ context.Context, consumer string, _ bus.Msg, cause error) error {
		t.Errorf("%s gave up: %v", consumer, cause)
		return nil
	})
	require.NoError(t, err)
	s.cached.byID = nil // another process does not know what the dead one put
	pgtest.Work(t, outbox.New(s.db, s.bus, nil, time.Hour, nil, nil, s.deps.Log, nil).Run)
	t.Cleanup(func() { stop(context.WithoutCancel(t.Context())) })
	soon := func(what string, no ids.ID, status string) {
		t.Helper()
		pgtest.Eventually(t, 3*time.Second, func() bool { // three times the promised second
			o, ok, err := s.cache.get(t.Context(), no)
			return err == nil && ok && o.Status == status
		}, what)
	}
	soon("the new order is cached", closed, orderevent.StatusPending)
	soon("the other one, too", paid, orderevent.StatusPending)

	// A change whose Announce is never called.
	s.inTx(func(tx pgx.Tx) error {
		_, _, err := s.MarkPaid(t.Context(), tx, paid, orderevent.PaidBy{PaymentNo: ids.New()}, s.costs(paid))
		return err
	})
	soon("the payment is cached", paid, orderevent.StatusPaid)
}

func TestCachePlaceIsPinned(t *testing.T) {
	t.Parallel()
	no, err := ids.Parse("0198f2c8b5d07c3e9a4f1b2c3d4e5f60")
	require.NoError(t, err)
	// Stored entries depend on it, and both hashes are in one slot.
	require.Equal(t, "keys", placeOf(no).keys(), []string{"o:{0:53601681}:long", "o:{0:53601681}:short"})
}

// forget deletes an order from the cache.
func (s *bundle) forget(ctx context.Context, no ids.ID) {
	s.t.Helper()
	for _, key := range placeOf(no).keys() {
		require.NoError(s.t, s.rdb.HDel(ctx, key, string(no[:])).Err())
	}
}
