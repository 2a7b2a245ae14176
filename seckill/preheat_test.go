package seckill

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/inventory"
	"stampede/platform/alarm"
	"stampede/platform/ids"
	"stampede/platform/pgtest"
	"stampede/seckill/catalogue"
)

// TestTwoInstancesLoadOnce: with both looking at the same item as often as
// they can, it is loaded once.
func TestTwoInstancesLoadOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	a, b := y.desk(), y.desk()
	s := a.publish(10 * time.Minute)
	if err := b.svc.Catalogue.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	item, ok := b.svc.Catalogue.Item(s.stockItem(t, false).ID)
	if !ok {
		t.Fatal("the other instance does not know the item")
	}
	var g errgroup.Group
	for i := range 40 {
		p := a.svc.preheat
		if i%2 == 1 {
			p = b.svc.preheat
		}
		g.Go(func() error {
			if err := p.underLease(t.Context(), item); !errors.Is(err, inventory.ErrBusy) {
				return err
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	// One that looked before the Load and got the lease after it finds nothing to do.
	if err := b.svc.preheat.underLease(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	if n := a.epoch(s); n != 1 {
		t.Errorf("epoch is %d: the item was loaded more than once", n)
	}
	if n := a.number(`SELECT epoch FROM inventory.stock WHERE item_id = $1`, s.item); n != 1 {
		t.Errorf("epoch in Postgres is %d", n)
	}
}

// TestPreheatTimes: what is loaded when.
func TestPreheatTimes(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	opens := at("2026-11-11T10:00:00+08:00")
	if got := newPublishedPlan(cfg, nil).preheatAt(opens); !got.Equal(at("2026-11-11T09:30:00+08:00")) {
		t.Errorf("by the lead: %v", got)
	}
	cfg.PreheatAtMidnight = true
	if got := newPublishedPlan(cfg, nil).preheatAt(opens); !got.Equal(at("2026-11-11T00:00:00+08:00")) {
		t.Errorf("at midnight: %v", got)
	}
	if got := newPublishedPlan(cfg, nil).preheatAt(at("2026-11-11T00:10:00+08:00")); !got.Equal(at("2026-11-10T23:40:00+08:00")) {
		t.Errorf("ten minutes past midnight: %v", got)
	}
}

// TestPreheatFollowsTheClock: nothing before its time, everything after it.
func TestPreheatFollowsTheClock(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(40 * time.Minute)
	round := func() { d.svc.preheat.round(t.Context()); d.svc.preheat.line.workers.Wait() }
	round()
	if _, ok, err := d.Stock.State(t.Context(), s.stockItem(t, false)); err != nil || ok {
		t.Fatalf("loaded 40 minutes ahead: %v", err)
	}
	d.clock.Advance(11 * time.Minute)
	round()
	if n := d.epoch(s); n != 1 {
		t.Errorf("epoch %d", n)
	}
	round()
	if n := d.epoch(s); n != 1 {
		t.Errorf("loaded again without need, epoch %d", n)
	}
}

// TestRedisLostIsHealed by the worker's own round and by a rush's request.
func TestRedisLostIsHealed(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(-time.Minute)
	defer d.Run(d.svc.preheat.run)()
	ready := func(inventory.State) bool { return true }
	d.settled(s, false, "the first load", ready)
	for range 3 {
		if err := d.Redis.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			d.svc.Catalogue.Heal(s.stockItem(t, false).ID)
		}
		d.settled(s, false, "the healing", ready)
	}
	if n := d.epoch(s); n != 4 {
		t.Errorf("epoch %d after three losses", n)
	}
}

// TestFailedLoadsAskForAPerson: later each time, and with an alarm.
func TestFailedLoadsAskForAPerson(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(-time.Minute)
	p, id := d.svc.preheat, s.stockItem(t, false).ID
	broken := errors.New("broken")
	var waits []time.Duration
	for range 8 {
		began := time.Now()
		p.loadEnded(t.Context(), id, broken)
		waits = append(waits, p.record(id).notUntil.Sub(began).Truncate(time.Second))
		list, err := alarm.List(t.Context(), d.DB, alarm.Filter{Open: true, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		if raised := len(list) == 1 && list[0].Code == alarm.PreheatFailed && list[0].Subject == "item "+s.item; raised != (len(waits) >= 3) {
			t.Errorf("alarms after %d failures: %v", len(waits), list)
		}
	}
	if waits[0] != time.Second || waits[1] != 2*time.Second || waits[7] != preheatRetryMost {
		t.Errorf("waits: %v", waits)
	}
	item, _ := d.svc.Catalogue.Item(id)
	p.start(item, true)
	p.work(t.Context())
	p.line.workers.Wait()
	if _, ok, _ := d.Stock.State(t.Context(), item.Stock()); ok {
		t.Error("tried again without waiting")
	}
	p.loadEnded(t.Context(), id, nil)
	if p.record(id).failures != 0 {
		t.Error("a success does not clear the failures")
	}
	p.loadEnded(t.Context(), id, inventory.ErrBusy)
	if p.record(id).failures != 0 {
		t.Error("another instance's Load counts as a failure")
	}
}

// TestALoadThatIsOwedSurvivesACrash: an edit was committed and nothing after it
// happened.
func TestALoadThatIsOwedSurvivesACrash(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(10 * time.Minute)
	round := func() { d.svc.preheat.round(t.Context()); d.svc.preheat.line.workers.Wait() }
	round()
	d.sql(`UPDATE seckill.items SET load_wanted = load_wanted + 1 WHERE id = $1`, s.item)
	round()
	if n := d.epoch(s); n != 2 {
		t.Errorf("epoch %d", n)
	}
	round()
	if n := d.epoch(s); n != 2 {
		t.Errorf("epoch %d: a load was made that nobody asked for", n)
	}
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/terminate", nil)
	d.sql(`UPDATE seckill.items SET load_wanted = load_wanted + 1 WHERE id = $1`, s.item)
	round()
	if n := d.epoch(s); n != 2 {
		t.Errorf("epoch %d: a terminated item was loaded", n)
	}
}

// TestEveryItemInLineIsLoaded: more items than run at once, and none is left to
// another round.
func TestEveryItemInLineIsLoaded(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	d.svc.preheat.line.parallel = 2
	var all []sale
	for range 9 {
		all = append(all, d.publish(-time.Minute))
	}
	d.svc.preheat.round(t.Context())
	d.svc.preheat.line.workers.Wait()
	for _, s := range all {
		if ready, err := d.Stock.Ready(t.Context(), s.stockItem(t, false)); err != nil || !ready {
			t.Errorf("item %s: ready %v, error %v", s.item, ready, err)
		}
	}
}

// TestWhatIsWantedMostIsLoadedFirst, also when it is asked for while it waits.
func TestWhatIsWantedMostIsLoadedFirst(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := newYard(t).desk().svc.preheat
	for id, opens := range map[int64]time.Duration{1: time.Hour, 2: time.Minute, 3: -time.Minute, 4: 0, 5: 2 * time.Hour, 6: 3 * time.Hour} {
		p.start(&catalogue.Item{ID: id, OpensAt: now.Add(opens)}, id == 5)
	}
	if p.mayHeal(6) {
		t.Error("an item that waits is looked at again")
	}
	p.start(&catalogue.Item{ID: 5}, true) // waits already
	var order []int64
	for len(p.line.waiting) > 0 {
		order = append(order, p.line.next(now).ID)
	}
	if want := []int64{5, 6, 3, 4, 2, 1}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

// TestStopLeavesWhatWaits to whoever goes on.
func TestStopLeavesWhatWaits(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(-time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	item, _ := d.svc.Catalogue.Item(s.stockItem(t, false).ID)
	p := d.svc.preheat
	p.start(item, false)
	p.work(ctx)
	p.line.workers.Wait()
	if len(p.line.waiting) != 0 || p.record(item.ID).busy {
		t.Error("an item still waits for a Load that nobody will make")
	}
	if _, ok, _ := d.Stock.State(t.Context(), item.Stock()); ok {
		t.Error("a Load began after the stop")
	}
}

// TestRestartSellsAtOnce: a process that is alone opens every item of its
// predecessor within two seconds, although each had grants a moment ago.
func TestRestartSellsAtOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	before := y.desk()
	var all []sale
	for range 22 {
		all = append(all, before.publish(-time.Minute))
	}
	before.svc.preheat.round(t.Context())
	before.svc.preheat.line.workers.Wait()
	var granted inventory.Decision
	for n, s := range all {
		item := s.stockItem(t, false)
		attempt := inventory.Attempt{User: int64(n) + 1, No: ids.NewFor(int64(n) + 1), Quantity: 1}
		if err := y.Stock.Reserve(t.Context(), item, before.epoch(s), []inventory.Attempt{attempt}, &granted); err != nil || granted.Seq != 1 {
			t.Fatal(granted, err)
		}
	}
	y.SetState("run_id", strings.Repeat("0", 40))

	after := y.desk(func(_ *Config, d *Deps) {
		d.Stock = y.NewStock(func(c *inventory.Config) { c.Alone, c.PublishDeadline = true, time.Minute })
	})
	if err := after.svc.Catalogue.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer after.Run(after.svc.preheat.run)()
	pgtest.Eventually(t, 2*time.Second, func() bool {
		for _, s := range all {
			if ready, err := y.Stock.Ready(t.Context(), s.stockItem(t, false)); err != nil || !ready {
				return false
			}
		}
		return true
	}, "every item sells")
}
