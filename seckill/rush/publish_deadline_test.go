package rush

import (
	"context"
	"net/http"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/seckill/catalogue"
	"stampede/seckill/seckillevent"
)

// clocked records the last decision, and the deadline of the publication of its result.
// Its user makes the calls one after the other.
type clocked struct {
	stock
	grants
	asked, by time.Time
}

func (c *clocked) Reserve(ctx context.Context, item inventory.Item, epoch int64, as []inventory.Attempt, into *inventory.Decision) error {
	c.asked = time.Now()
	return c.stock.Reserve(ctx, item, epoch, as, into)
}

func (c *clocked) Publish(ctx context.Context, b *seckillevent.Batch, data []byte) error {
	c.by, _ = ctx.Deadline()
	return c.grants.Publish(ctx, b, data)
}

// A Load waits for publications starting with its fence, so their deadline runs
// from before the call to Redis: for grants and for repetitions.
func TestPublicationsEndADeadlineAfterTheQuestion(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(5)
	i := y.instance([]*catalogue.Item{it})
	deadline := i.rush.cfg.PublishDeadline
	c := &clocked{stock: i.rush.lanes.stock, grants: i.queue}
	i.rush.lanes.stock, i.rush.lanes.grants = c, c
	began := time.Now()
	check := func(what string) {
		t.Helper()
		if c.by.Before(began.Add(deadline)) || c.by.After(c.asked.Add(deadline)) {
			t.Errorf("%s may be published until %v after the call, want at most %v", what, c.by.Sub(c.asked), deadline)
		}
	}
	path, _ := i.buy(1, it)
	check("a grant")
	i.rush.places.numbers.cache.Clear() // as after a restart
	began = time.Now()
	i.send(path.Path)
	check("a repetition")
}

// A grant that Redis made so late that a Load may not have waited for it is
// neither published nor promised.
func TestAGrantAfterTheDeadlineIsUnknown(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(5)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.PublishDeadline = 100 * time.Millisecond })
	i.rush.lanes.stock = &faultyStock{stock: i.rush.lanes.stock, reserve: func(_ int, decide func() error) error {
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
