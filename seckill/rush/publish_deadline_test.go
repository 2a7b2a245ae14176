package rush

import (
	"context"
	"net/http"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/seckill/catalogue"
	"stampede/seckill/seckillevent"
)

// clocked records the last call to Redis, for a decision or for stale holds, and
// the deadline of the publication of its result. Its user makes the calls one
// after the other.
type clocked struct {
	stock
	grants
	asked, by time.Time
}

func (c *clocked) Reserve(ctx context.Context, item inventory.Item, epoch int64, as []inventory.Attempt, into *inventory.Decision) error {
	c.asked = time.Now()
	return c.stock.Reserve(ctx, item, epoch, as, into)
}

func (c *clocked) StaleHolds(ctx context.Context, item inventory.Item, olderThan time.Duration, limit int) ([]inventory.StaleHold, error) {
	c.asked = time.Now()
	return c.stock.StaleHolds(ctx, item, olderThan, limit)
}

func (c *clocked) Publish(ctx context.Context, b *seckillevent.Batch, data []byte) error {
	c.by, _ = ctx.Deadline()
	return c.grants.Publish(ctx, b, data)
}

func (c *clocked) Republish(ctx context.Context, itemID int64, holds []inventory.StaleHold) error {
	c.by, _ = ctx.Deadline()
	return c.grants.Republish(ctx, itemID, holds)
}

// check requires a deadline that starts after a moment and before the call to
// Redis.
func (c *clocked) check(t *testing.T, what string, after time.Time, deadline time.Duration) {
	t.Helper()
	if c.by.Before(after.Add(deadline)) || c.by.After(c.asked.Add(deadline)) {
		t.Errorf("%s may be published until %v after the call, want at most %v", what, c.by.Sub(c.asked), deadline)
	}
	c.by = time.Time{}
}

// A Load waits for publications starting with its fence, so their deadline runs
// from before the call to Redis: for grants, for repetitions and for what the
// sweeper republishes.
func TestPublicationsEndADeadlineAfterTheQuestion(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(5)
	i := y.instance([]*catalogue.Item{it}, quick)
	deadline := i.rush.cfg.PublishDeadline
	c := &clocked{stock: i.rush.stock, grants: i.queue}
	i.rush.lanes.stock, i.rush.lanes.grants = c, c

	began := time.Now()
	path, _ := i.buy(1, it)
	c.check(t, "a grant", began, deadline)

	i.rush.queue.numbers.cache.Clear() // as after a restart
	began = time.Now()
	i.send(path.Path)
	c.check(t, "a repetition", began, deadline)

	s := newSweeper(i.rush.cfg, i.rush.deps, c, c, i.rush.metrics)
	s.notes = map[int64]map[ids.ID]*note{}
	lose := i.Run(func(ctx context.Context) error {
		return y.Queue().Consume(ctx, func(_ context.Context, batch []bus.Msg) {
			for _, m := range batch {
				if err := m.Ack(); err != nil {
					t.Errorf("ack: %v", err)
				}
			}
		})
	})
	defer lose()
	round := uint64(0)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		round++
		began = time.Now()
		if err := s.sweepItem(t.Context(), it, round); err != nil {
			t.Error(err)
		}
		return !c.by.IsZero()
	}, "the sweeper published")
	c.check(t, "a stale hold", began, deadline)
}

// A grant that Redis made so late that a Load may not have waited for it is
// neither published nor promised.
func TestAGrantAfterTheDeadlineIsUnknown(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(5)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.PublishDeadline = 100 * time.Millisecond })
	i.rush.lanes.stock = &faultyStock{stock: i.rush.stock, reserve: func(_ int, decide func() error) error {
		over := time.After(i.rush.cfg.PublishDeadline)
		err := decide()
		<-over
		return err
	}}
	if _, a := i.buy(1, it); a.Status != http.StatusServiceUnavailable || a.Code != "unknown" {
		t.Fatalf("%+v", a)
	}
	if n, err := y.Queue().State(t.Context()); err != nil || n.Messages != 0 {
		t.Fatalf("%d messages were published (%v)", n, err)
	}
}
