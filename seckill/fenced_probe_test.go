package seckill

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"stampede/platform/alarm"
	"stampede/platform/pgtest"
)

func (d *desk) raised(code alarm.Code) []alarm.Alarm {
	d.t.Helper()
	l, err := alarm.List(d.t.Context(), d.db, alarm.Filter{Code: code})
	if err != nil {
		d.t.Fatal(err)
	}
	return l
}

// An item on sale whose keys Redis has lost, and that nobody loads.
func TestItemOnSaleWithoutStateIsAnAlarm(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	open, later := d.publish(-time.Minute), d.publish(10*time.Minute)
	for _, s := range []sale{open, later} {
		if err := d.stock.Load(t.Context(), s.stockItem(t, false).ID); err != nil {
			t.Fatal(err)
		}
	}
	probe := d.svc.FencedProbe()
	if found, err := probe.Look(t.Context()); err != nil || len(found) != 0 {
		t.Fatalf("loaded items: %+v, %v", found, err)
	}
	if err := d.rdb.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	probe.For, probe.Every = 0, 20*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- alarm.NewWatch(d.db, slog.New(slog.DiscardHandler), probe).Run(ctx) }()
	pgtest.Eventually(t, 10*time.Second, func() bool { return len(d.raised(alarm.ItemFenced)) > 0 }, "the alarm")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if l := d.raised(alarm.ItemFenced); len(l) != 1 || l[0].Subject != "item "+open.item {
		t.Errorf("alarms %+v", l)
	}
	// An item whose sale is over misses nothing.
	d.clock.advance(365 * 24 * time.Hour)
	if found, err := probe.Look(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("ended items: %+v, %v", found, err)
	}
}

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
