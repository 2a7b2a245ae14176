package seckill

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/inventory"
	"stampede/platform/alarm"
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
		g.Go(func() error { return p.underLease(t.Context(), item) })
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
	if got := newCatalogue(cfg, Deps{}).preheatAt(opens); !got.Equal(at("2026-11-11T09:30:00+08:00")) {
		t.Errorf("by the lead: %v", got)
	}
	cfg.PreheatAtMidnight = true
	if got := newCatalogue(cfg, Deps{}).preheatAt(opens); !got.Equal(at("2026-11-11T00:00:00+08:00")) {
		t.Errorf("at midnight: %v", got)
	}
	if got := newCatalogue(cfg, Deps{}).preheatAt(at("2026-11-11T00:10:00+08:00")); !got.Equal(at("2026-11-10T23:40:00+08:00")) {
		t.Errorf("ten minutes past midnight: %v", got)
	}
	now := time.Now()
	for name, c := range map[string]struct {
		item Item
		want bool
	}{
		"due":       {Item{OnSale: true, PreheatAt: now, ClosesAt: now.Add(1)}, true},
		"too early": {Item{OnSale: true, PreheatAt: now.Add(1), ClosesAt: now.Add(2)}, false},
		"closed":    {Item{OnSale: true, PreheatAt: now.Add(-2), ClosesAt: now}, false},
		"withdrawn": {Item{PreheatAt: now.Add(-1), ClosesAt: now.Add(1)}, false},
	} {
		if got := dueForRedis(&c.item, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestPreheatFollowsTheClock: nothing before its time, everything after it.
func TestPreheatFollowsTheClock(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(40 * time.Minute)
	var loads errgroup.Group
	d.svc.preheat.round(t.Context(), &loads)
	_ = loads.Wait()
	if _, ok, err := d.stock.State(t.Context(), s.stockItem(t, false)); err != nil || ok {
		t.Fatalf("loaded 40 minutes ahead: %v", err)
	}
	d.clock.advance(11 * time.Minute)
	d.svc.preheat.round(t.Context(), &loads)
	_ = loads.Wait()
	if n := d.epoch(s); n != 1 {
		t.Errorf("epoch %d", n)
	}
	d.svc.preheat.round(t.Context(), &loads)
	_ = loads.Wait()
	if n := d.epoch(s); n != 1 {
		t.Errorf("loaded again without need, epoch %d", n)
	}
}

// TestRedisLostIsHealed by the worker's own round and by a rush's request.
func TestRedisLostIsHealed(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(-time.Minute)
	defer d.running(d.svc.preheat.run)()
	ready := func(inventory.State) bool { return true }
	d.settled(s, false, "the first load", ready)
	for range 3 {
		if err := d.rdb.FlushDB(t.Context()).Err(); err != nil {
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
		p.settle(t.Context(), id, broken)
		waits = append(waits, p.record(id).notUntil.Sub(began).Truncate(time.Second))
		list, err := alarm.List(t.Context(), d.db, true, 10)
		if err != nil {
			t.Fatal(err)
		}
		if raised := len(list) == 1 && list[0].Code == "preheat-failed" && list[0].Subject == "item "+s.item; raised != (len(waits) >= 3) {
			t.Errorf("alarms after %d failures: %v", len(waits), list)
		}
	}
	if waits[0] != time.Second || waits[1] != 2*time.Second || waits[7] != preheatRetryMost {
		t.Errorf("waits: %v", waits)
	}
	var loads errgroup.Group
	item, _ := d.svc.Catalogue.Item(id)
	p.start(t.Context(), &loads, item)
	_ = loads.Wait()
	if _, ok, _ := d.stock.State(t.Context(), item.Stock()); ok {
		t.Error("tried again without waiting")
	}
	p.settle(t.Context(), id, nil)
	if p.record(id).failures != 0 {
		t.Error("a success does not clear the failures")
	}
	p.settle(t.Context(), id, inventory.ErrBusy)
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
	var loads errgroup.Group
	round := func() { d.svc.preheat.round(t.Context(), &loads); _ = loads.Wait() }
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
