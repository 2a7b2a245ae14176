package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/queue"
	"stampede/seckill/seckillevent"
)

// shop is a queue whose grants the test makes as a lane does.
type shop struct {
	*seckilltest.Bundle
	queue   *queue.Queue
	metrics *prometheus.Registry
	item    *catalogue.Item
}

func openShop(t *testing.T) *shop {
	t.Helper()
	y, metrics := seckilltest.New(t), prometheus.NewRegistry()
	item := y.Item(10)
	return &shop{y, y.NewQueue(seckilltest.NewListing(t, item).Catalogue, metrics), metrics, item}
}

func (s *shop) sweeper() *queue.Sweeper {
	return queue.NewSweeper(s.queue, s.Stock, s.DB, 10*time.Second).Quick()
}

func (s *shop) swept(how string) float64 {
	return seckilltest.Counted(s.T, s.metrics, "stampede_seckill_swept_holds_total", how)
}

func (s *shop) state() inventory.State {
	s.T.Helper()
	state, _, err := s.Stock.State(s.T.Context(), s.item.Stock())
	require.NoError(s.T, err)
	return state
}

// grant has Redis grant a user a unit, and publishes that unless the message is to be lost.
func (s *shop) grant(user int64, payWithin int32, lost bool) ids.ID {
	s.T.Helper()
	g, ctx := seckillevent.Grant{No: ids.NewFor(user), User: user, Quantity: 1, PayWithin: payWithin}, s.T.Context()
	var d inventory.Decision
	attempt := inventory.Attempt{User: user, No: g.No, Quantity: 1, PayWithin: payWithin}
	require.NoError(s.T, s.Stock.Reserve(ctx, s.item.Stock(), s.state().Epoch, []inventory.Attempt{attempt}, &d))
	g.Seq = d.Results[0].Seq
	if !lost {
		var b seckillevent.Batch
		queue.Describe(&b, s.item, 0, d.Epoch)
		b.Grants = []seckillevent.Grant{g}
		require.NoError(s.T, s.queue.Publish(ctx, &b, b.Encode(nil)))
	}
	return g.No
}

// stale waits until so many holds are old enough to be swept.
func (s *shop) stale(n int) {
	s.T.Helper()
	pgtest.Eventually(s.T, 30*time.Second, func() bool {
		stale, err := s.Stock.StaleHolds(s.T.Context(), s.item.Stock(), queue.QuickStale, 10)
		return err == nil && len(stale) == n
	}, "the holds became stale")
}

// drop runs a writer that acknowledges each message and makes nothing of it.
func (s *shop) drop(each func()) {
	s.Run(func(ctx context.Context) error {
		return s.queue.Consume(ctx, func(_ context.Context, batch []bus.Msg) {
			for _, m := range batch {
				each()
				if err := m.Ack(); err != nil {
					s.T.Errorf("ack: %v", err)
				}
			}
		})
	})
}

// Grants whose messages were lost are published again, and every unit ends up in
// exactly one order, with the payment window of its path.
func TestSweeperRepublishesLostGrants(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	nos := []ids.ID{s.grant(1, 30, true), s.grant(2, 0, false), s.grant(3, 0, false), s.grant(4, 0, true)}
	s.Write()
	s.Run(s.sweeper().Run)
	pgtest.Eventually(t, 30*time.Second, func() bool { return s.state().Persisted == 4 }, "every hold settled")
	require.Equal(t, "orders", s.Orders.Count(), 4)
	for i, want := range []int32{30, 0, 0, 0} {
		require.Equal(t, fmt.Sprint("seconds to pay of shopper ", i+1), s.Orders.Granted(nos[i]).PayWithin, want)
	}
	// The sweeper may count after the writer has already written the orders.
	pgtest.Eventually(t, 30*time.Second, func() bool { return s.swept("republished") == 2 }, "two counted as published again")
	require.Equal(t, "orders created twice", s.Orders.Twice, 0)
}

// A backlog is left alone: grants that wait in the stream are not published
// again.
func TestSweeperDoesNotAmplifyABacklog(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for u := range int64(5) {
		s.grant(u+1, 0, false)
	}
	s.stale(5)
	sweeper := s.sweeper()
	for range 20 {
		require.NoError(t, sweeper.Sweep(t.Context(), s.item))
	}
	if backlog, err := s.queue.State(t.Context()); err != nil || backlog.Messages != 5 {
		t.Fatalf("%d messages (%v), want 5", backlog.Messages, err)
	}
	s.SettleAll(5)
	require.NoError(t, sweeper.Sweep(t.Context(), s.item))
	require.Equal(t, "items with notes", sweeper.Notes(), 0)
}

// A stream that was lost starts at 1 again, and a lost grant does not wait until
// the new stream is as long as the old one.
func TestSweeperDoesNotWaitForAStreamThatIsGone(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	lost := s.grant(1, 0, true)
	s.grant(2, 0, false)
	s.stale(2)
	sweeper := s.sweeper()
	sweeper.Note(s.item.Stock(), lost, 1<<40)
	sweep := func(republished float64) {
		t.Helper()
		require.NoError(t, sweeper.Sweep(t.Context(), s.item))
		require.Equal(t, "published again", s.swept("republished"), republished)
	}
	sweep(0) // a message is waiting that may contain it
	s.SettleAll(1)
	s.grant(3, 0, false)
	sweep(1) // the messages waiting now came later
}

// The order exists but its writer died before it could mark the hold.
func TestSweeperMarksWrittenOrders(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.Orders.Set(s.grant(1, 0, false), "pending_payment")
	s.Run(s.sweeper().Run)
	pgtest.Eventually(t, 30*time.Second, func() bool { return s.swept("persisted") == 1 }, "marked persisted")
	require.Equal(t, "marked and published", []float64{float64(s.state().Persisted), s.swept("republished")}, []float64{1, 0})
}

// A grant that the writer consumes without a result is published once more and
// then raises an alarm.
func TestSweeperRaisesAnAlarmForWhatStaysLost(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.grant(1, 0, false)
	var eaten atomic.Int64
	s.drop(func() { eaten.Add(1) })
	s.Run(s.sweeper().Run)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		all, err := alarm.List(t.Context(), s.DB, alarm.Filter{Open: true, Limit: 10})
		return err == nil && len(all) == 1 && all[0].Code == "hold-stuck" && all[0].Subject == inventory.ItemSubject(s.item.ID)
	}, "the alarm")
	require.Equal(t, "times published", eaten.Load(), 2)
}

// countedHolds counts a sweeper's rounds over items.
type countedHolds struct {
	queue.Holds
	rounds *atomic.Int64
}

func (c countedHolds) StaleHolds(ctx context.Context, item inventory.Item, olderThan time.Duration, limit int) ([]inventory.StaleHold, error) {
	c.rounds.Add(1)
	return c.Holds.StaleHolds(ctx, item, olderThan, limit)
}

// Of two instances one sweeps, and the other takes over at once when it stops.
func TestOneInstanceSweeps(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	var first, second atomic.Int64
	run := func(rounds *atomic.Int64) (stop func()) {
		return s.Run(queue.NewSweeper(s.queue, countedHolds{s.Stock, rounds}, s.DB, 10*time.Second).Quick().Run)
	}
	made := func(what string, rounds *atomic.Int64) {
		t.Helper()
		more := rounds.Load() + 5
		pgtest.Eventually(t, 30*time.Second, func() bool { return rounds.Load() >= more }, what)
	}
	stop := run(&first)
	made("the first sweeps", &first)
	run(&second)
	made("the first sweeps on", &first)
	require.Equal(t, "rounds of the second while the first leads", second.Load(), 0)
	stop()
	made("the second takes over", &second)
}

// lateHolds answers so late that a Load may not have waited for what is done about it.
type lateHolds struct {
	queue.Holds
	by time.Duration
}

func (l lateHolds) StaleHolds(ctx context.Context, item inventory.Item, olderThan time.Duration, limit int) ([]inventory.StaleHold, error) {
	late := time.After(l.by)
	holds, err := l.Holds.StaleHolds(ctx, item, olderThan, limit)
	<-late
	return holds, err
}

// A Load waits for publications starting with its fence, so their deadline runs from
// before the holds are read.
func TestSweeperPublishesNothingAfterTheDeadline(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.grant(1, 0, true)
	s.stale(1)
	const deadline = 100 * time.Millisecond
	sweeper := queue.NewSweeper(s.queue, lateHolds{s.Stock, deadline}, s.DB, deadline).Quick()
	require.NoError(t, sweeper.Sweep(t.Context(), s.item)) // notes it
	if err := sweeper.Sweep(t.Context(), s.item); err == nil {
		t.Error("published after the deadline")
	}
	if state, err := s.queue.State(t.Context()); err != nil || state.Messages != 0 {
		t.Errorf("%d messages were published (%v)", state.Messages, err)
	}
}
