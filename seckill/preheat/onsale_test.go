package preheat

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

// undecided requires why not every item decides.
func (i *instance) undecided(why string) {
	i.T.Helper()
	if err := i.svc.Deciding(i.T.Context()); err == nil || !strings.Contains(err.Error(), why) {
		i.T.Errorf("%v, want %s", err, why)
	}
}

// One item's state in Redis cannot be read; the others are still checked, and each
// is reported with its own reason.
func TestEachItemIsJudgedByItself(t *testing.T) {
	t.Parallel()
	i := setup(t)
	broken, good, gone, fenced := i.publish(-time.Minute), i.publish(-time.Minute), i.publish(-time.Minute), i.publish(-time.Minute)
	if err := i.svc.Deciding(t.Context()); err == nil {
		t.Error("the items are not checked yet")
	}
	found, err := i.svc.FencedProbe().Look(t.Context())
	require.NoError(t, err) // of a start, which no operator need read of
	require.Equal(t, "found by a start", len(found), 0)
	i.checked()
	i.checked()
	require.NoError(t, i.svc.Deciding(t.Context()))
	state := func(it *catalogue.Item) string { return fmt.Sprintf("{g:i%d:0}:%d:state", it.ID, it.ID) }
	for _, err := range []error{
		i.Redis.Del(t.Context(), state(broken), state(gone)).Err(),
		i.Redis.Set(t.Context(), state(broken), "not a hash", 0).Err(),
		i.Redis.HSet(t.Context(), state(fenced), "fenced", 99).Err(),
	} {
		require.NoError(t, err)
	}
	i.checked()
	found, err = i.svc.FencedProbe().Look(t.Context())
	if err == nil {
		t.Error("no error for the item that cannot be read")
	}
	want := []alarm.Finding{
		{Subject: inventory.ItemSubject(gone.ID), Detail: "It has no state in Redis."},
		{Subject: inventory.ItemSubject(fenced.ID), Detail: "Its Load has not finished."},
	}
	slices.SortFunc(found, func(a, b alarm.Finding) int { return strings.Compare(a.Subject, b.Subject) })
	require.Equal(t, "found", found, want)
	i.undecided("2 items on sale do not sell, for example item ")
	// They were loaded again; the broken one is still unknown.
	i.checked()
	if err := i.svc.Deciding(t.Context()); err == nil || strings.Contains(err.Error(), "do not sell") {
		t.Errorf("an item that cannot be read: %v", err)
	}
	require.Equal(t, "a good item sells", i.isReady(good), true)
	i.svc.last.Store(&look{at: time.Now().Add(-lookExpires - time.Second)})
	i.undecided("were checked 11s ago")
}

// An item published while its sale is open is loaded within a second, in which the
// shop is not degraded; if that takes long, it is.
func TestItemThatIsLoadedForTheFirstTimeDegradesNothing(t *testing.T) {
	t.Parallel()
	i := setup(t)
	i.publish(-time.Minute)
	i.svc.check(t.Context())
	require.NoError(t, i.svc.Deciding(t.Context()))
	if found, err := i.svc.FencedProbe().Look(t.Context()); err != nil || len(found) != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	slow := i.publish(-time.Minute)
	i.svc.mu.Lock()
	i.svc.record(slow.ID).since = time.Now().Add(-fencedFor)
	i.svc.mu.Unlock()
	i.svc.check(t.Context())
	i.undecided("for example " + inventory.ItemSubject(slow.ID))
	i.svc.queue.workers.Wait()
}

// While Postgres does not answer, it is not known which items decide.
func TestUncheckedItemsAreNotCalledWell(t *testing.T) {
	t.Parallel()
	i := setup(t)
	i.publish(-time.Minute)
	i.checked()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	i.svc.check(ctx)
	require.ErrorIs(t, i.svc.Deciding(t.Context()), context.Canceled)
}

// An item on sale that Redis does not decide on.
func TestItemOnSaleWithoutStateIsAnAlarm(t *testing.T) {
	t.Parallel()
	i := setup(t)
	open := i.publish(-time.Minute)
	i.publish(10 * time.Minute)
	i.svc.check(t.Context())
	i.svc.queue.workers.Wait()
	probe := i.svc.FencedProbe()
	probe.For, probe.Every = 0, 20*time.Millisecond
	i.Run(alarm.NewWatch(i.DB, slog.New(slog.DiscardHandler), probe).Run)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(i.raised(alarmItemFenced.Code)) > 0 }, "the alarm")
	if l := i.raised(alarmItemFenced.Code); len(l) != 1 || l[0].Subject != inventory.ItemSubject(open.ID) {
		t.Errorf("alarms %+v", l)
	}
}
