package inventory

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

// waits reports whether a Load of the item still waits for publishers after a moment. If the moment ends before that
// is known, a longer one follows.
//
// An interrupted Load may have published again what it found open, and the next one waits for that: loads is for a
// Load that must not wait.
func (b *bundle) waits(s *Service, item Item) bool {
	b.t.Helper()
	for moment := 100 * time.Millisecond; ; moment *= 3 {
		ctx, cancel := context.WithTimeout(b.t.Context(), moment)
		err := s.Load(ctx, item.ID)
		cancel()
		switch {
		case err == nil:
			return false
		case ctx.Err() == nil || moment > 10*time.Second:
			b.t.Fatal(err)
		case strings.Contains(err.Error(), "wait for publishers"):
			return true
		}
	}
}

// otherRun makes the items' states name a past run of Redis, as a restart does.
func (b *bundle) otherRun(items ...Item) {
	b.t.Helper()
	for _, item := range items {
		require.NoError(b.t, b.rdb.HSet(b.t.Context(), item.StateKey(), "run_id", "0123456789abcdef0123456789abcdef01234567").Err())
	}
}

// loads reports whether a Load of the item succeeds in half the publish deadline of these tests.
func (b *bundle) loads(s *Service, item Item) bool {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), s.store.PublishDeadline/2)
	defer cancel()
	err := s.Load(ctx, item.ID)
	if err != nil {
		b.t.Log(err)
	}
	return err == nil
}

// A process with SingleInstance waits for its own grants and for nothing that its predecessor may have been
// publishing.
func TestLoneProcessWaitsForItselfOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one1, two, three := b.create(onSale(1, 5)), b.create(onSale(2, 5)), b.create(onSale(3, 5))
	for _, item := range []Item{one1, two, three} {
		b.load(item)
		b.reserve(item, b.state(item).Epoch, one(1))
	}
	b.otherRun(one1)
	require.NoError(t, b.rdb.Unlink(t.Context(), two.StateKey()).Err())
	next := b.instance()
	next.store.PublishDeadline, next.store.SingleInstance = time.Minute, true
	for what, item := range map[string]Item{"another run": one1, "state lost": two, "same run": three} {
		require.Equal(t, what+": loads without a wait, as the process published nothing", b.loads(next, item), true)
	}
	var d Decision
	require.NoError(t, next.Reserve(t.Context(), one1, b.state(one1).Epoch, []Attempt{one(2)}, &d))
	require.Equal(t, "verdict", only(t, d).Verdict, Granted)
	require.Equal(t, "waits for its own grant", b.waits(next, one1), true)
	require.Equal(t, "loads without a wait for another item's grant", b.loads(next, two), true)
	// A refusal publishes nothing.
	require.NoError(t, next.Reserve(t.Context(), two, b.state(two).Epoch, []Attempt{{User: 3, No: one(3).No, Quantity: 9}}, &d))
	require.Equal(t, "loads without a wait after a refusal", b.loads(next, two), true)
}

// A hold returned to the sweeper may be published by it.
func TestLoneProcessWaitsForHoldsReturnedToSweeper(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 5))
	b.reserve(item, epoch, one(1))
	next := b.instance()
	next.store.PublishDeadline, next.store.SingleInstance = time.Minute, true
	stale, err := next.StaleHolds(t.Context(), item, 0, 10)
	require.Equal(t, "stale", fmt.Sprint(len(stale), err), "1 <nil>")
	require.Equal(t, "waits", b.waits(next, item), true)
}

// A grant that is repeated may be published again.
func TestLoneProcessWaitsForRepeatedGrants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	repeated, other := b.create(onSale(1, 5)), b.create(onSale(2, 5))
	first := one(1)
	next := b.instance()
	next.store.PublishDeadline, next.store.SingleInstance = time.Minute, true
	for item, again := range map[Item]Attempt{repeated: first, other: one(1)} {
		b.load(item)
		epoch := b.state(item).Epoch
		b.reserve(item, epoch, first)
		var d Decision
		require.NoError(t, next.Reserve(t.Context(), item, epoch, []Attempt{again}, &d))
		require.Equal(t, fmt.Sprint("waits for a grant that was answered ", only(t, d).Verdict), b.waits(next, item), true)
	}
}

// After a restart of Redis one wait serves every item, and a second restart requires a new wait.
func TestOneWaitForAllItemsAfterARestartOfRedis(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.create(onSale(1, 5)), b.create(onSale(2, 5))
	for _, item := range []Item{first, second} {
		b.load(item)
		b.reserve(item, b.state(item).Epoch, one(1))
	}
	b.otherRun(first, second)
	b.store.PublishDeadline = 2 * time.Second
	require.Equal(t, "waits after the restart", b.waits(b.Service, first), true)
	<-time.After(b.store.PublishDeadline) // from when the first Load saw the change
	for _, item := range []Item{first, second} {
		require.Equal(t, fmt.Sprintf("item %d loads without another wait", item.ID), b.loads(b.Service, item), true)
	}
	b.reserve(first, b.state(first).Epoch, one(2))
	require.Equal(t, "waits for grants of this run", b.waits(b.Service, first), true)
}
