package inventory

import (
	"context"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// waits reports whether a Load of the item still waits for publishers after a
// moment. If the moment ends before that is known, a longer one follows.
//
// An interrupted Load may have published again what it found open, and the next
// one waits for that: loads is for a Load that must not wait.
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
		require.NoError(b.t, b.rdb.HSet(b.t.Context(), item.stateKey(), "run_id", "0123456789abcdef0123456789abcdef01234567").Err())
	}
}

// loads reports whether a Load of the item succeeds in half the publish
// deadline of these tests.
func (b *bundle) loads(s *Service, item Item) bool {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), s.cfg.PublishDeadline/2)
	defer cancel()
	err := s.Load(ctx, item.ID)
	if err != nil {
		b.t.Log(err)
	}
	return err == nil
}

// A process with SingleInstance waits for its own grants and for nothing that
// its predecessor may have been publishing.
func TestLoneProcessWaitsForItselfOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one1, two, three := b.create(onSale(1, 5)), b.create(onSale(2, 5)), b.create(onSale(3, 5))
	for _, item := range []Item{one1, two, three} {
		b.load(item)
		b.reserve(item, b.state(item).Epoch, one(1))
	}
	b.otherRun(one1)
	require.NoError(t, b.rdb.Unlink(t.Context(), two.stateKey()).Err())
	next := b.instance()
	next.cfg.PublishDeadline, next.cfg.SingleInstance = time.Minute, true
	for what, item := range map[string]Item{"another run": one1, "state lost": two, "same run": three} {
		if !b.loads(next, item) {
			t.Errorf("%s: a process that published nothing waited", what)
		}
	}
	var d Decision
	require.NoError(t, next.Reserve(t.Context(), one1, b.state(one1).Epoch, []Attempt{one(2)}, &d))
	mustBe(t, "verdict", only(t, d).Verdict, Granted)
	if !b.waits(next, one1) {
		t.Error("did not wait for its own grant")
	}
	if !b.loads(next, two) {
		t.Error("waited for another item's grant")
	}
	// A refusal publishes nothing.
	require.NoError(t, next.Reserve(t.Context(), three, b.state(three).Epoch, []Attempt{one(2), {User: 3, No: one(3).No, Quantity: 9}}, &d))
	next.granting(two.ID).note(time.Now().Add(-time.Hour))
	if !b.loads(next, two) {
		t.Error("waited although the deadline is over")
	}
}

// A hold returned to the sweeper may be published by it.
func TestLoneProcessWaitsForHoldsReturnedToSweeper(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 5))
	b.reserve(item, epoch, one(1))
	next := b.instance()
	next.cfg.PublishDeadline, next.cfg.SingleInstance = time.Minute, true
	if stale, err := next.StaleHolds(t.Context(), item, 0, 10); err != nil || len(stale) != 1 {
		t.Fatal(stale, err)
	}
	if !b.waits(next, item) {
		t.Error("did not wait")
	}
}

// A grant that is repeated may be published again.
func TestLoneProcessWaitsForRepeatedGrants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	repeated, other := b.create(onSale(1, 5)), b.create(onSale(2, 5))
	first := one(1)
	next := b.instance()
	next.cfg.PublishDeadline, next.cfg.SingleInstance = time.Minute, true
	for item, again := range map[Item]Attempt{repeated: first, other: one(1)} {
		b.load(item)
		epoch := b.state(item).Epoch
		b.reserve(item, epoch, first)
		var d Decision
		require.NoError(t, next.Reserve(t.Context(), item, epoch, []Attempt{again}, &d))
		if !b.waits(next, item) {
			t.Errorf("did not wait for a grant that was answered %v", only(t, d).Verdict)
		}
	}
}

// A decision that is under way when the Load fences may be a grant.
func TestLoadSeesDecisionsUnderWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.cfg.SingleInstance = true
	item, _ := b.loaded(onSale(1, 5))
	g := b.granting(item.ID)
	g.deciding.RLock()
	found := make(chan time.Time, 1)
	go func() { found <- g.since() }()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		if g.deciding.TryRLock() { // fails once the Load is waiting
			g.deciding.RUnlock()
			return false
		}
		return true
	}, "the Load waits for the decision")
	at := time.Now()
	g.note(at)
	g.deciding.RUnlock()
	mustBe(t, "last grant", <-found, at)
}

// After a restart of Redis one wait serves every item, and a second restart
// requires a new wait.
func TestOneWaitForAllItemsAfterARestartOfRedis(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.create(onSale(1, 5)), b.create(onSale(2, 5))
	for _, item := range []Item{first, second} {
		b.load(item)
		b.reserve(item, b.state(item).Epoch, one(1))
	}
	b.otherRun(first, second)
	b.cfg.PublishDeadline = runMemory / 2
	if !b.waits(b.Service, first) {
		t.Error("did not wait after the restart")
	}
	for c := range b.runs.seen { // as if the wait were nearly over
		b.runs.seen[c] = time.Now().Add(-b.cfg.PublishDeadline + 200*time.Millisecond)
		if c.from[:4] != "0123" || len(c.to) != 40 || c.from == c.to {
			t.Errorf("the change is from %q to %q", c.from, c.to)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, item := range []Item{first, second} {
		if err := b.Load(ctx, item.ID); err != nil {
			t.Errorf("item %d: %v", item.ID, err)
		}
	}
	b.reserve(first, b.state(first).Epoch, one(2))
	if !b.waits(b.Service, first) {
		t.Error("did not wait for grants of this run")
	}
}

// The same change of runs, seen again much later, is another one.
func TestRunChangesAreForgotten(t *testing.T) {
	t.Parallel()
	var r runs
	now := time.Now()
	c := runChange{"a", "b"}
	mustBe(t, "first", r.first(c, now), now)
	mustBe(t, "soon after", r.first(c, now.Add(time.Second)), now)
	mustBe(t, "the way back", r.first(runChange{"b", "a"}, now.Add(time.Second)), now.Add(time.Second))
	later := now.Add(2 * runMemory)
	mustBe(t, "again", r.first(c, later), later)
	mustBe(t, "remembered", len(r.seen), 1)
}
