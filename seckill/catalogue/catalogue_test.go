package catalogue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"stampede/platform/store/bus"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
)

// TestLookupsAllocateNothing counts the allocations of lookups. Not in parallel,
// because it counts the allocations of the whole process.
func TestLookupsAllocateNothing(t *testing.T) {
	c := seckilltest.NewListing(t, &catalogue.Item{ID: 7}).Catalogue
	require.Equal(t, "allocations of a lookup", testing.AllocsPerRun(100, func() { c.Item(7); c.Item(8) }), 0)
}

// TestSnapshotIsReplacedAsAWhole checks that a changed plan, and nothing else,
// replaces the snapshot.
func TestSnapshotIsReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	listing := seckilltest.NewListing(t, &catalogue.Item{ID: 9, SessionID: 3, ActivityID: 2}, &catalogue.Item{ID: 7})
	if items := listing.Items(); len(items) != 2 || items[0].ID != 7 || items[1].ID != 9 {
		t.Errorf("items in the order of %+v", items)
	}
	activity, ok := listing.ActivityOf(3)
	require.Equal(t, "session 3 is known", ok, true)
	require.Equal(t, "its activity", activity, 2)
	before := listing.Reads()
	require.NoError(t, listing.Refresh(t.Context()))
	require.Equal(t, "reads of an unchanged plan", listing.Reads(), before)
	listing.Plan(&catalogue.Item{ID: 8})
	listing.Fail(errors.New("broken on purpose"))
	if err := listing.Refresh(t.Context()); err == nil || len(listing.Items()) != 2 {
		t.Errorf("a failed refresh (%v) left %d items", err, len(listing.Items()))
	}
	listing.Fail(nil)
	require.NoError(t, listing.Refresh(t.Context()))
	require.Equal(t, "items after it", len(listing.Items()), 1)
	_, ok = listing.Item(7)
	require.Equal(t, "an item that was withdrawn is known", ok, false)
}

// TestChangesAreFound checks that a change is found immediately by its event, and
// by the poll if the event was lost.
func TestChangesAreFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listing := seckilltest.NewListing(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- listing.Run(ctx) }()
		synctest.Wait()
		known := func(id int64) bool {
			synctest.Wait()
			_, ok := listing.Item(id)
			return ok
		}
		began := time.Now()
		listing.Plan(&catalogue.Item{ID: 7})
		for range 3 { // more than the channel holds; the first refresh covers them all
			require.NoError(t, listing.Subscription().Handle(ctx, bus.Msg{}))
		}
		if !known(7) || time.Since(began) != 0 {
			t.Errorf("with its event known: %v, after %v", known(7), time.Since(began))
		}
		listing.Plan(&catalogue.Item{ID: 8})
		require.Equal(t, "item 8 without an event or a poll", known(8), false)
		<-time.After(2 * time.Second) // of the bubble
		require.Equal(t, "item 8 after the poll", known(8), true)
		cancel()
		require.NoError(t, <-ended)
	})
}

// TestHealNeverWaits checks that requests beyond the buffer are dropped.
func TestHealNeverWaits(t *testing.T) {
	t.Parallel()
	c := seckilltest.NewListing(t).Catalogue
	for id := range int64(1000) {
		c.Heal(id)
	}
	for id := range int64(256) {
		require.Equal(t, "item", <-c.Fenced(), id)
	}
	select {
	case id := <-c.Fenced():
		t.Errorf("item %d is one too many", id)
	default:
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDueInRedis checks that an item is due from its preheat until it closes.
func TestDueInRedis(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		item catalogue.Item
		want bool
	}{
		"due":       {catalogue.Item{OnSale: true, PreheatAt: now, ClosesAt: now.Add(1)}, true},
		"too early": {catalogue.Item{OnSale: true, PreheatAt: now.Add(1), ClosesAt: now.Add(2)}, false},
		"closed":    {catalogue.Item{OnSale: true, PreheatAt: now.Add(-2), ClosesAt: now}, false},
		"withdrawn": {catalogue.Item{PreheatAt: now.Add(-1), ClosesAt: now.Add(1)}, false},
	} {
		require.Equal(t, name, c.item.DueInRedis(now), c.want)
	}
}
