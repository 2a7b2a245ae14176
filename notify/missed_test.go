package notify

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestSocketsThatMayHaveMissedAPushAreClosed(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, w := range b.service.Workers() {
		pgtest.Work(t, w.Run)
	}
	before := b.connect(t, 7)
	b.service.Subscriptions()[0].Missed()
	reading, done := context.WithTimeout(t.Context(), 30*time.Second)
	defer done()
	mustClose(reading, t, before, websocket.StatusTryAgainLater)
	after := b.connect(t, 7)
	b.change(t, orderevent.Order{No: ids.NewFor(7), UserID: 7, Status: orderevent.StatusPaid, Version: 2})
	require.Contains(t, "the new socket's", read(t, after), `"paid"`)
	require.Equal(t, "slow sockets", testutil.ToFloat64(b.service.hub.gauges.slow), 0)
}

// TestGapIsToldAtOnce: a few sockets need no pauses, and a second gap, as while a
// server restarts, must not wait for them.
func TestGapIsToldAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(DefaultConfig(), Deps{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
		conns := make([]*stuck, 200)
		for i := range conns {
			conns[i] = &stuck{}
			s.hub.add(&socket{user: int64(i), conn: conns[i], hub: s.hub})
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = s.closeBehind(ctx) }()
		s.missed()
		<-time.After(time.Second) // of the bubble
		synctest.Wait()
		for _, c := range conns {
			require.Equal(t, "status of a socket after a second", c.status(), websocket.StatusTryAgainLater)
		}
		cancel()
		synctest.Wait()
	})
}

func TestChangesAreAnnouncedBeforeTheyArePushed(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var announced []int32
	b.service.deps.Announced = func(_ context.Context, changed, pushed []orderevent.Order) {
		for _, o := range changed {
			announced = append(announced, o.Version)
		}
		require.Equal(t, "to be pushed without a socket", len(pushed), 0)
	}
	b.change(t, orderevent.Order{No: ids.NewFor(7), UserID: 7, Status: orderevent.StatusPaid, Version: 2}) // without a socket here
	require.Equal(t, "announced", announced, []int32{2})
}
