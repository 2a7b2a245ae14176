package preheat

import (
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/store/lease"
	"stampede/platform/workshop/require"
)

// A planted constraint on the epoch makes every Load fail in Postgres. In
// between, another instance holds the lease and fails as well.
func TestLoadThatFailsAgainAndAgainIsAnAlarm(t *testing.T) {
	t.Parallel()
	i := setup(t)
	item := i.publish(-time.Minute)
	i.sql(`ALTER TABLE inventory.stock ADD CONSTRAINT planted CHECK (epoch = 0)`)
	for range 3 {
		if l := i.raised(alarmPreheatFailed.Code); len(l) != 0 {
			t.Fatalf("too early: %+v", l)
		}
		i.svc.loadEnded(t.Context(), item.ID, i.svc.load(t.Context(), item))
		elsewhere, ok, err := lease.Acquire(t.Context(), i.DB, "load:1", "another instance", time.Minute)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		i.svc.loadEnded(t.Context(), item.ID, i.svc.load(t.Context(), item))
		require.NoError(t, lease.Release(t.Context(), i.DB, elsewhere))
	}
	if l := i.raised(alarmPreheatFailed.Code); len(l) != 1 || l[0].Subject != inventory.ItemSubject(item.ID) || l[0].Detail == "" {
		t.Errorf("alarms %+v", l)
	}
	// Another instance has loaded it, which resets the failures.
	i.sql(`ALTER TABLE inventory.stock DROP CONSTRAINT planted`)
	i.Load(item)
	i.sql(`UPDATE seckill.items SET load_done = load_wanted`)
	i.svc.check(t.Context())
	if n := i.svc.record(item.ID).failures; n != 0 {
		t.Errorf("a loaded item still counts %d failures", n)
	}
}
