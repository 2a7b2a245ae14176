package rush

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
)

func quick(c *Config) {
	c.StaleHold, c.SweepEvery = 100*time.Millisecond, 20*time.Millisecond
}

func (i *instance) sweeper() *sweeper {
	return newSweeper(i.rush.cfg, i.rush.deps, i.rush.stock, i.rush.lanes.grants, i.rush.metrics)
}

func (i *instance) swept(how string) float64 {
	return seckilltest.Counted(i.T, i.metrics, "stampede_seckill_swept_holds_total", how)
}

// A publication that fails is answered unknown; the sweeper publishes again,
// and every unit ends up in exactly one order.
func TestSweeperRepublishesUnstoredGrants(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it}, quick)
	lost, storedAfterAll := errors.New("lost"), errors.New("answer lost")
	outcomes := []error{lost, storedAfterAll, nil, lost}
	i.rush.lanes.grants = &faultyStream{grants: i.queue, publish: func(send func() error) error {
		next := outcomes[0]
		if outcomes = outcomes[1:]; errors.Is(next, lost) {
			return next
		}
		return errors.Join(send(), next)
	}}
	var paths []rushPath
	i.rush.deps.Admit = func(_ context.Context, a *Applicant) error {
		if a.User == 1 {
			a.PayWithin = 30 * time.Second
		}
		return nil
	}
	for u := range int64(4) {
		p, a := i.buy(u+1, it)
		if want := map[bool]string{true: "", false: "unknown"}[u == 2]; a.Code != want {
			t.Fatalf("shopper %d: %+v", u+1, a)
		}
		paths = append(paths, p)
	}
	i.rush.lanes.grants = i.queue
	y.Write()
	i.Run(i.sweeper().Run)
	pgtest.Eventually(t, 30*time.Second, func() bool { st := i.state(it); return st.Persisted == 4 }, "every hold settled")
	require.Equal(t, "orders", y.Orders.Count(), 4)
	// A shopper with a shorter payment window keeps it after an outage.
	for u, want := range []int32{30, 0, 0, 0} {
		if got := y.Orders.Granted(parse(t, paths[u].OrderNo)).PayWithin; got != want {
			t.Errorf("shopper %d was granted %d s to pay, want %d", u+1, got, want)
		}
	}
	for _, p := range paths {
		if a := i.send(p.Path); a.Status != http.StatusAccepted || a.OrderNo != p.OrderNo || a.State != "pending_payment" {
			t.Fatalf("%+v", a)
		}
	}
	// The sweeper may count after the writer has already written the orders.
	pgtest.Eventually(t, 30*time.Second, func() bool { return i.swept("republished") == 2 }, "two counted as published again")
	require.Equal(t, "orders created twice", y.Orders.Twice, 0)
}

// A backlog is left alone: grants that wait in the stream are not published
// again.
func TestSweeperDoesNotAmplifyABacklog(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it}, quick)
	for u := range int64(5) {
		i.buy(u+1, it)
	}
	s := i.sweeper()
	s.notes = map[int64]map[ids.ID]*note{}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		stale, err := i.rush.stock.StaleHolds(t.Context(), it.Stock(), i.rush.cfg.StaleHold, 10)
		return err == nil && len(stale) == 5
	}, "the holds became stale")
	for round := range uint64(20) {
		require.NoError(t, s.sweepItem(t.Context(), it, round+1))
	}
	if backlog, err := y.Queue().State(t.Context()); err != nil || backlog.Messages != 5 {
		t.Fatalf("%d messages (%v), want 5", backlog, err)
	}
	y.SettleAll(5)
	if err := s.sweepItem(t.Context(), it, 100); err != nil || len(s.notes) != 0 {
		t.Fatalf("%v, notes %v", err, s.notes)
	}
}

// A stream that was lost starts at 1 again, and a lost grant does not wait until
// the new stream is as long as the old one.
func TestSweeperDoesNotWaitForAStreamThatIsGone(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it}, quick)
	down := i.streamDown()
	lost, _ := i.buy(1, it)
	down.Store(false)
	i.buy(2, it)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		stale, err := i.rush.stock.StaleHolds(t.Context(), it.Stock(), i.rush.cfg.StaleHold, 10)
		return err == nil && len(stale) == 2
	}, "the holds became stale")
	s := i.sweeper()
	s.notes = map[int64]map[ids.ID]*note{it.ID: {parse(t, lost.OrderNo): {upTo: 1 << 40}}}
	sweep := func(round uint64, republished float64) {
		t.Helper()
		if err := s.sweepItem(t.Context(), it, round); err != nil || i.swept("republished") != republished {
			t.Fatalf("%v, published again %v, want %v", err, i.swept("republished"), republished)
		}
	}
	sweep(1, 0) // a message is waiting that may contain it
	y.SettleAll(1)
	i.buy(3, it)
	sweep(2, 1) // the messages waiting now came later
}

// The order exists but its writer died before it could mark the hold.
func TestSweeperMarksWrittenOrders(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it}, quick)
	p, _ := i.buy(1, it)
	y.Orders.Set(parse(t, p.OrderNo), "pending_payment")
	i.Run(i.sweeper().Run)
	pgtest.Eventually(t, 30*time.Second, func() bool { return i.swept("persisted") == 1 }, "marked persisted")
	if i.state(it).Persisted != 1 || i.swept("republished") != 0 {
		t.Fatal("published instead of marked")
	}
}

// A grant that the writer consumes without a result is published once more and
// then raises an alarm.
func TestSweeperRaisesAnAlarmForWhatStaysLost(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it}, quick)
	i.buy(1, it)
	var eaten atomic.Int64
	i.Run(func(ctx context.Context) error {
		return y.Queue().Consume(ctx, func(_ context.Context, batch []bus.Msg) {
			for _, m := range batch {
				eaten.Add(1)
				if err := m.Ack(); err != nil {
					t.Errorf("ack: %v", err)
				}
			}
		})
	})
	i.Run(i.sweeper().Run)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		all, err := alarm.List(t.Context(), y.DB, alarm.Filter{Open: true, Limit: 10})
		return err == nil && len(all) == 1 && all[0].Code == alarmHoldStuck.Code && all[0].Subject == "item 1"
	}, "the alarm")
	if n := eaten.Load(); n != 2 {
		t.Fatalf("published %d times, want 2", n)
	}
}

// Two instances share the work by a lease; the second takes over immediately
// when the first stops.
func TestOneInstanceSweeps(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	a, b := y.instance([]*catalogue.Item{it}, quick), y.instance([]*catalogue.Item{it}, quick)
	stop := a.Run(a.sweeper().Run)
	holder := func() (name string) {
		_ = y.DB.QueryRow(t.Context(), `SELECT holder FROM platform.leases WHERE name = $1 AND expires_at > clock_timestamp()`, sweepLease).Scan(&name)
		return name
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return holder() != "" }, "the first leads")
	first := holder()
	b.Run(b.sweeper().Run)
	p, _ := a.buy(1, it)
	y.Orders.Set(parse(t, p.OrderNo), "pending_payment")
	pgtest.Eventually(t, 30*time.Second, func() bool { return a.swept("persisted") == 1 }, "the first sweeps")
	if b.swept("persisted") != 0 || holder() != first {
		t.Fatal("both sweep")
	}
	stop()
	pgtest.Eventually(t, 30*time.Second, func() bool { h := holder(); return h != "" && h != first }, "the second takes over")
}
