package seckill

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/pgtest"
)

// An item that cannot be read keeps no other from being loaded, and is told of
// once in each round.
func TestAnItemThatCannotBeReadKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := newYard(t).desk(func(_ *Config, deps *Deps) { deps.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	all := []sale{d.publish(-time.Minute), d.publish(-time.Minute), d.publish(-time.Minute)}
	broken := all[:2] // the first ones to be looked at
	for _, s := range broken {
		// No hash, and as unreadable as on a node that is gone.
		if err := d.Redis.Set(t.Context(), "{g:i"+s.item+":0}:"+s.item+":state", "", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	log.Reset()
	d.svc.preheat.round(t.Context())
	d.svc.preheat.line.workers.Wait()
	if n := d.epoch(all[2]); n != 1 {
		t.Errorf("epoch %d of the item that can be read", n)
	}
	d.sql(`UPDATE inventory.stock SET total = total + 3, available = available + 3, rev = rev + 1 WHERE item_id = $1`, all[2].item)
	d.svc.preheat.round(t.Context())
	if st := d.settled(all[2], false, "the change", func(inventory.State) bool { return true }); st.Remaining != 13 {
		t.Errorf("a change did not get to the item that can be read: %+v", st)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d complaints in two rounds:\n%s", n, &log)
	}
}

// Redis failed over and back within seconds, and decides as it did before its
// last Load.
func TestAnItemBackAtAnOlderLoadIsLoaded(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(-time.Minute)
	item := s.stockItem(t, false)
	load := func() {
		if err := d.Stock.Load(t.Context(), item.ID); err != nil {
			t.Fatal(err)
		}
	}
	load()
	old := map[string]string{}
	for _, key := range d.Redis.Keys(t.Context(), "{g:i*").Val() {
		old[key] = d.Redis.Dump(t.Context(), key).Val()
	}
	load()
	for key, dump := range old {
		if err := d.Redis.RestoreReplace(t.Context(), key, 0, dump).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.epoch(s); n != 1 {
		t.Fatalf("epoch %d is not the old one", n)
	}
	defer d.Run(d.svc.preheat.run)()
	pgtest.Eventually(t, 3*preheatEvery, func() bool { return d.epoch(s) == 3 }, "the item to be loaded")
}
