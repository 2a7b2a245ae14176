package rush

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/seckillevent"
)

// A grant that was certainly not stored is not released directly either, and
// shoppers who were not granted anything are answered immediately.
func TestFailingPublicationIsUnknownAndKeepsTheHold(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it})
	i.rush.lanes.grants = &faultyStream{grants: i.queue, publish: func(func() error) error { return errors.New("broken on purpose") }}
	p := i.issue(1, it, 1)
	i.send(p.Path).want(t, "not stored", http.StatusServiceUnavailable, "unknown", "1")
	st := i.state(it)
	require.Equal(t, "units left and grants", [2]int64{st.Remaining, st.Seq}, [2]int64{0, 1})
	i.inLine("the number", 1, parse(t, p.OrderNo), it, 1)
}

// streamDown makes the instance's stream of grants fail until it is set to
// false.
func (i *instance) streamDown() *atomic.Bool {
	down := new(atomic.Bool)
	down.Store(true)
	i.rush.lanes.grants = &faultyStream{grants: i.queue, publish: func(send func() error) error {
		if down.Load() {
			return errors.New("broken on purpose")
		}
		return send()
	}}
	return down
}

// A 202 promises that the message is on disk, also when the path is sent again:
// while the first publication failed, the repetition is unknown, and the first
// publication that succeeds carries the grant.
func TestARepetitionIsPromisedOnlyOncePublished(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it})
	down := i.streamDown()
	p := i.issue(1, it, 1)
	for range 2 {
		i.send(p.Path).want(t, "while nothing is stored", http.StatusServiceUnavailable, "unknown")
	}
	down.Store(false)
	i.send(p.Path).accepted(t, "once it can be stored", p, "queued")
	y.Write()
	pgtest.Eventually(t, 30*time.Second, func() bool { return y.Orders.Count() == 1 }, "the order of the repeated grant")
}

// The number in already-bought is as much a promise as the one in a 202: it
// appears in an answer only once its message is on disk, with the units that it
// holds and the payment window of its own path.
func TestTheNumberInAlreadyBoughtIsPublishedFirst(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(3, func(it *catalogue.Item) { it.UserLimit = 2 })
	i := y.instance([]*catalogue.Item{it})
	down := i.streamDown()
	within := 30 * time.Second
	i.rush.deps.Admit = func(_ context.Context, a *Applicant) error {
		a.PayWithin = within
		return nil
	}
	first := i.issue(1, it, 2)
	within = 60 * time.Second
	second := i.issue(1, it, 1)
	for _, p := range []rushPath{first, second} {
		i.send(p.Path).want(t, "while nothing is stored", http.StatusServiceUnavailable, "unknown")
	}
	down.Store(false)
	a := i.send(second.Path)
	a.want(t, "once it can be stored", http.StatusConflict, "already-bought")
	require.Equal(t, "the number in already-bought", a.OrderNo, first.OrderNo)
	y.Write()
	pgtest.Eventually(t, 30*time.Second, func() bool { return y.Orders.Count() == 1 }, "the order of the number that was named")
	if g := y.Orders.Granted(parse(t, first.OrderNo)); g.Quantity != 2 || g.PayWithin != 30 {
		t.Fatalf("the grant: %+v", g)
	}
}

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
	i.buys("too late", 1, it, http.StatusServiceUnavailable, "unknown")
	if n, err := y.Queue().State(t.Context()); err != nil || n.Messages != 0 {
		t.Fatalf("%d messages were published (%v)", n, err)
	}
}
