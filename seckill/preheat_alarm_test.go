package seckill

import (
	"testing"
	"time"

	"stampede/platform/alarm"
)

// Postgres does not let the epoch be raised, so that every Load really fails.
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
	}
	if l := d.raised(alarm.PreheatFailed); len(l) != 1 || l[0].Subject != "item "+s.item || l[0].Detail == "" {
		t.Errorf("alarms %+v", l)
	}
}
