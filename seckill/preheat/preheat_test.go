package preheat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

// TestTwoInstancesLoadOnce checks that an item is loaded once although two
// instances check it as often as they can.
func TestTwoInstancesLoadOnce(t *testing.T) {
	t.Parallel()
	i := setup(t)
	other := i.another()
	item := i.publish(10 * time.Minute)
	var g errgroup.Group
	for n := range 40 {
		p := i.svc
		if n%2 == 1 {
			p = other
		}
		g.Go(func() error {
			if err := p.load(t.Context(), item); !errors.Is(err, inventory.ErrBusy) {
				return err
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	// An instance that checked before the Load and got the lease after it finds
	// nothing to do.
	require.NoError(t, other.load(t.Context(), item))
	require.Equal(t, "the epoch, of one Load", i.epoch(item), 1)
	var done [2]int
	row := i.DB.QueryRow(t.Context(), `SELECT s.epoch, i.load_done FROM inventory.stock s JOIN seckill.items i ON i.id = s.item_id`)
	require.NoError(t, row.Scan(&done[0], &done[1]))
	require.Equal(t, "the epoch in Postgres and what is recorded as answered", done, [2]int{1, 1})
}

// TestPreheatFollowsTheClock checks that items are loaded at their preheat time
// and not before.
func TestPreheatFollowsTheClock(t *testing.T) {
	t.Parallel()
	i := setup(t)
	item := i.publish(40 * time.Minute)
	i.checked()
	_, loaded := i.state(item)
	require.Equal(t, "loaded 40 minutes ahead", loaded, false)
	i.clock.Advance(11 * time.Minute)
	i.checked()
	require.Equal(t, "epoch", i.epoch(item), 1)
	i.checked()
	require.Equal(t, "epoch after a check without need", i.epoch(item), 1)
}

// TestRedisLostIsHealed loses Redis; the worker's own round and a rush's
// request each repair it.
func TestRedisLostIsHealed(t *testing.T) {
	t.Parallel()
	i := setup(t)
	item := i.publish(-time.Minute)
	defer i.Run(i.svc.Run)()
	settled := func(what string) {
		t.Helper()
		pgtest.Eventually(t, 30*time.Second, func() bool { return i.isReady(item) }, what)
	}
	settled("the first load")
	for range 3 {
		require.NoError(t, i.Redis.FlushDB(t.Context()).Err())
		for range 1000 {
			i.listing.Heal(item.ID)
		}
		settled("the healing")
	}
	require.Equal(t, "the epoch after three losses", i.epoch(item), 4)
}

// TestFailedLoadsRaiseAnAlarm checks that retries come later each time and
// raise an alarm.
func TestFailedLoadsRaiseAnAlarm(t *testing.T) {
	t.Parallel()
	i := setup(t)
	item := i.publish(-time.Minute)
	p, id := i.svc, item.ID
	broken := errors.New("broken")
	var waits []time.Duration
	for range 8 {
		began := time.Now()
		p.loadEnded(t.Context(), id, broken)
		waits = append(waits, p.record(id).notUntil.Sub(began).Truncate(time.Second))
		list := i.raised(alarmPreheatFailed.Code)
		if raised := len(list) == 1 && list[0].Subject == inventory.ItemSubject(id); raised != (len(waits) >= alarmAfter) {
			t.Errorf("alarms after %d failures: %v", len(waits), list)
		}
	}
	if waits[0] != time.Second || waits[1] != 2*time.Second || waits[7] != retryMost {
		t.Errorf("waits: %v", waits)
	}
	p.enqueue(item, true)
	p.startLoads(t.Context())
	p.queue.workers.Wait()
	_, loaded := i.state(item)
	require.Equal(t, "retried without waiting", loaded, false)
	// Another instance has loaded it, which clears the failures as a Load of its own does.
	i.Load(item)
	i.sql(`UPDATE seckill.items SET load_done = load_wanted`)
	p.check(t.Context())
	require.Equal(t, "failures of a loaded item", p.record(id).failures, 0)
	p.loadEnded(t.Context(), id, inventory.ErrBusy)
	require.Equal(t, "failures after another instance's Load", p.record(id).failures, 0)
}

// TestALoadThatIsOwedSurvivesACrash commits an edit and stops before any work
// after the commit.
func TestALoadThatIsOwedSurvivesACrash(t *testing.T) {
	t.Parallel()
	i := setup(t)
	item := i.publish(10 * time.Minute)
	i.checked()
	i.sql(`UPDATE seckill.items SET load_wanted = load_wanted + 1 WHERE id = $1`, item.ID)
	i.checked()
	require.Equal(t, "epoch", i.epoch(item), 2)
	i.checked()
	require.Equal(t, "the epoch, of no Load without a request", i.epoch(item), 2)
	terminated := *item
	terminated.OnSale = false
	i.listing.Show(&terminated)
	i.sql(`UPDATE seckill.items SET load_wanted = load_wanted + 1 WHERE id = $1`, item.ID)
	i.checked()
	require.Equal(t, "the epoch of a terminated item", i.epoch(item), 2)
}

// TestEveryItemInLineIsLoaded queues more items than may be loaded concurrently
// and expects all of them loaded in one round.
func TestEveryItemInLineIsLoaded(t *testing.T) {
	t.Parallel()
	i := setup(t)
	i.svc.queue.parallel = 2
	for range 9 {
		i.publish(-time.Minute)
	}
	i.checked()
	for _, item := range i.items {
		require.Equal(t, fmt.Sprint("loaded item ", item.ID), i.isReady(item), true)
	}
}

// TestMostUrgentItemIsLoadedFirst checks the order of the queue, also when a
// waiting item is requested.
func TestMostUrgentItemIsLoadedFirst(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := setup(t).svc
	for id, opens := range map[int64]time.Duration{1: time.Hour, 2: time.Minute, 3: -time.Minute, 4: 0, 5: 2 * time.Hour, 6: 3 * time.Hour} {
		p.enqueue(&catalogue.Item{ID: id, OpensAt: now.Add(opens)}, id == 5)
	}
	require.Equal(t, "a waiting item is checked again", p.mayHeal(6), false)
	p.enqueue(&catalogue.Item{ID: 5}, true) // is already waiting
	var order []int64
	for len(p.queue.waiting) > 0 {
		order = append(order, p.queue.next(now).ID)
	}
	require.Equal(t, "order", order, []int64{5, 6, 3, 4, 2, 1})
}

// TestStopLeavesWaitingItems checks that a stop leaves waiting items to other
// instances.
func TestStopLeavesWaitingItems(t *testing.T) {
	t.Parallel()
	i := setup(t)
	item := i.publish(-time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := i.svc
	p.enqueue(item, false)
	p.startLoads(ctx)
	p.queue.workers.Wait()
	if len(p.queue.waiting) != 0 || p.record(item.ID).busy {
		t.Error("an item still waits for a Load that will never run")
	}
	_, loaded := i.state(item)
	require.Equal(t, "loaded after the stop", loaded, false)
}

// TestRestartSellsAtOnce checks that a process that runs alone opens every item
// of its predecessor within two seconds (three times that is waited), although each had grants a moment ago.
func TestRestartSellsAtOnce(t *testing.T) {
	t.Parallel()
	i := setup(t)
	for range 22 {
		i.publish(-time.Minute)
	}
	i.checked()
	var granted inventory.Decision
	for n, item := range i.items {
		attempt := inventory.Attempt{User: int64(n) + 1, No: ids.NewFor(int64(n) + 1), Quantity: 1}
		if err := i.Stock.Reserve(t.Context(), item.Stock(), i.epoch(item), []inventory.Attempt{attempt}, &granted); err != nil || granted.Seq != 1 {
			t.Fatal(granted, err)
		}
		require.NoError(t, i.Stock.Persisted(t.Context(), inventory.Written{Item: item.Stock(), Epoch: granted.Epoch, Nos: []ids.ID{attempt.No}}))
	}
	i.SetState("run_id", strings.Repeat("0", 40))

	after := i.another(func(d *Deps) {
		d.Stock = i.NewStock(func(c *inventory.Config) { c.SingleInstance, c.PublishDeadline = true, time.Minute })
	})
	defer i.Run(after.Run)()
	pgtest.Eventually(t, 6*time.Second, func() bool {
		return !slices.ContainsFunc(i.items, func(item *catalogue.Item) bool { return !i.isReady(item) })
	}, "every item sells")
}

// An unreadable item does not keep other items from being loaded, and is logged
// once per check.
func TestAnItemThatCannotBeReadKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	i := setup(t, func(deps *Deps) { deps.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	all := []*catalogue.Item{i.publish(-time.Minute), i.publish(-time.Minute), i.publish(-time.Minute)}
	for _, it := range all[:2] { // the first ones to be checked
		// A string in place of the hash: as unreadable as on a node that is
		// down.
		require.NoError(t, i.Redis.Set(t.Context(), fmt.Sprintf("{g:i%d:0}:%d:state", it.ID, it.ID), "", 0).Err())
	}
	log.Reset()
	i.checked()
	require.Equal(t, "epoch of the readable item", i.epoch(all[2]), 1)
	i.sql(`UPDATE inventory.stock SET total = total + 3, available = available + 3, rev = rev + 1 WHERE item_id = $1`, all[2].ID)
	i.checked()
	if st, ok := i.state(all[2]); !ok || !st.Ready() || st.Remaining != 13 {
		t.Errorf("a change did not reach the readable item: %+v", st)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings in two checks:\n%s", n, &log)
	}
}
