package seckill

import (
	"testing"
	"time"

	"stampede/platform/alarm"
	"stampede/platform/lease"
)

// Postgres does not let the epoch be raised, so that every Load really fails. In
// between another instance is at it, with as little success.
func TestLoadThatFailsAgainAndAgainIsAnAlarm(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(-time.Minute)
	d.sql(`ALTER TABLE inventory.stock ADD CONSTRAINT planted CHECK (epoch = 0)`)
	p := d.svc.preheat
	item, _ := d.svc.Catalogue.Item(s.stockItem(t, false).ID)
	for range 3 {
		if l := d.raised(alarm.PreheatFailed); len(l) != 0 {
			t.Fatalf("too early: %+v", l)
		}
		p.loadEnded(t.Context(), item.ID, p.underLease(t.Context(), item))
		elsewhere, ok, err := lease.Acquire(t.Context(), d.DB, "preheat:"+s.item, "another instance", time.Minute)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		p.loadEnded(t.Context(), item.ID, p.underLease(t.Context(), item))
		if err := lease.Release(t.Context(), d.DB, elsewhere); err != nil {
			t.Fatal(err)
		}
	}
	if l := d.raised(alarm.PreheatFailed); len(l) != 1 || l[0].Subject != "item "+s.item || l[0].Detail == "" {
		t.Errorf("alarms %+v", l)
	}
	// Loaded by whomever, it has not failed in a row any more.
	d.sql(`ALTER TABLE inventory.stock DROP CONSTRAINT planted`)
	if err := d.svc.deps.Stock.Load(t.Context(), item.ID); err != nil {
		t.Fatal(err)
	}
	d.sql(`UPDATE seckill.items SET load_done = load_wanted`)
	p.round(t.Context())
	if n := p.record(item.ID).failures; n != 0 {
		t.Errorf("%d failures of an item that is loaded", n)
	}
}
