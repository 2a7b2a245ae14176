package order

import (
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// A Redis that took over has an order as it was before its last change, and the
// event of that change was handled by its predecessor.
func TestCacheIsEmptiedAfterFailover(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const mark = "order-cache:run"
	workers := s.Workers()
	at := slices.IndexFunc(workers, func(w app.Worker) bool { return w.Name == "order-cache-takeovers" })
	if at < 0 {
		t.Fatal("no worker watches for failovers of the cache")
	}
	// live runs the worker until it has checked its Redis.
	live := func() {
		stop := pgtest.Work(t, workers[at].Run)
		pgtest.Eventually(t, 30*time.Second, func() bool {
			text, err := s.rdb.Info(t.Context(), "server").Result()
			run, _ := s.rdb.Get(t.Context(), mark).Result()
			return err == nil && run != "" && strings.Contains(text, "run_id:"+run)
		}, "the run to be noted")
		stop()
	}
	cached := func(no ids.ID) bool {
		_, ok, err := s.cache.get(t.Context(), no)
		require.NoError(t, err)
		return ok
	}
	live()
	old := orderevent.Order{No: ids.NewFor(1), UserID: 1, Version: 1, Status: orderevent.StatusPending}
	require.NoError(t, s.cache.putNew(t.Context(), []orderevent.Order{old}, visibleByWriter))
	live()
	require.Equal(t, "cached while Redis is the same", cached(old.No), true)
	require.NoError(t, s.rdb.Set(t.Context(), mark, "the run of its predecessor", 0).Err())
	live()
	require.Equal(t, "cached after another Redis took over", cached(old.No), false)
}

// An event whose first put failed is redelivered, or one that EVENTS lost is
// republished, after a later change was cached and the cache emptied of it. The
// cache then gets the current state, not the event's.
func TestRedeliveredEventCachesCurrentState(t *testing.T) {
	t.Parallel()
	s := setup(t)
	recalled := ids.New()
	for i, ms := 0, time.Now().Add(-2*replayAge).UnixMilli(); i < 6; i++ { // where the number carries its time
		recalled[i] = byte(ms >> (40 - 8*i))
	}
	no := s.placed(s.item(5), 1).Grants[0].No
	data, err := orderevent.Pack([]orderevent.Order{s.order(no)})
	require.NoError(t, err)
	s.exec(`UPDATE orders.orders SET status = 'paid', version = 2 WHERE order_no = $1`, no)
	for name, m := range map[string]bus.Msg{"delivered again": {ID: ids.New(), Attempt: 2}, "sent again": {ID: recalled, Attempt: 1}} {
		require.NoError(t, s.cache.empty(t.Context(), s.rdb))
		m.Subject, m.Data = orderevent.SubjectCreated, data[0]
		require.NoError(t, s.cacheChanged(t.Context(), m))
		if o, ok, err := s.cache.get(t.Context(), no); err != nil || !ok || o.Version != 2 || o.Status != orderevent.StatusPaid {
			t.Errorf("%s: the cache has %+v (%t, %v), want the order as paid", name, o, ok, err)
		}
	}
}
