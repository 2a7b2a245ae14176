package rush

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

// held is a stock that waits before it asks Redis.
type held struct {
	stock
	before func(item inventory.Item, epoch int64)
	after  func(item inventory.Item)
	borrow func(ctx context.Context) error
}

func (h *held) Reserve(ctx context.Context, item inventory.Item, epoch int64, as []inventory.Attempt, into *inventory.Decision) error {
	if h.before != nil {
		h.before(item, epoch)
	}
	err := h.stock.Reserve(ctx, item, epoch, as, into)
	if h.after != nil {
		h.after(item)
	}
	return err
}

func (h *held) Borrow(ctx context.Context, item inventory.Item, shards int16, wanted int64) (inventory.Whole, error) {
	if h.borrow != nil {
		if err := h.borrow(ctx); err != nil {
			return inventory.Whole{}, err
		}
	}
	return h.stock.Borrow(ctx, item, shards, wanted)
}

// homed is a user, from so many on, of one shard of four and of another of seven.
func homed(from int64, of4, of7 int16) int64 {
	for ; inventory.HomeOf(ids.Bucket(from), 4) != of4 || inventory.HomeOf(ids.Bucket(from), 7) != of7; from++ {
	}
	return from
}

// A batch that was collected before a Load gave its item more shards must not be decided at the shards of before,
// also if another lane has noticed the Load first.
func TestReshardingNoticedByAnotherLane(t *testing.T) {
	t.Parallel()
	y := setup(t, sharded)
	it := y.Item(1000)
	i := y.instance([]*catalogue.Item{it})
	defer y.Write()()
	for shard := range int16(4) {
		i.buys("to begin a lane", homed(1, shard, shard), it, http.StatusAccepted, "")
	}
	y.SettleAll(4)
	var armed atomic.Bool
	blocked, pass := make(chan struct{}), make(chan struct{})
	i.rush.lanes.stock = &held{stock: i.rush.lanes.stock, before: func(item inventory.Item, _ int64) {
		if item.Shard == 0 && armed.CompareAndSwap(true, false) {
			close(blocked)
			<-pass
		}
	}}
	user := homed(1000, 0, 5)
	first := i.issue(user, it, 1)
	armed.Store(true)
	answered := make(chan answer, 1)
	go func() { answered <- i.send(first.Path) }()
	<-blocked
	require.NoError(t, y.NewStock(func(c *inventory.Config) { c.StockShards = 7 }).Load(t.Context(), it.ID))
	i.buys("at another lane, which notices the Load", homed(2000, 1, 1), it, http.StatusAccepted, "")
	close(pass)
	a := <-answered
	_, second := i.buy(user, it)
	for shard := range int16(7) {
		users, err := y.Stock.Users(t.Context(), it.Stock().Counter(shard), i.rush.lanes.all.find(it.ID).shards.known.Load().epoch, 100)
		require.NoError(t, err)
		for _, u := range users {
			if home := inventory.HomeOf(ids.Bucket(u), 7); home != shard {
				t.Errorf("user %d of shard %d holds a unit at shard %d", u, home, shard)
			}
		}
	}
	if a.Status == http.StatusAccepted && second.Status == http.StatusAccepted {
		t.Error("the second click got another number: two grants of one user")
	}
}

// A grant must not lose its answer because Postgres is slow with the units of another shopper of the batch.
func TestSlowBorrowingDoesNotDelayGrants(t *testing.T) {
	t.Parallel()
	y := setup(t, sharded)
	it := y.Item(400)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.PublishDeadline = time.Second })
	user := int64(0)
	next := func() int64 {
		for user++; inventory.HomeOf(ids.Bucket(user), 4) != 2; user++ {
		}
		return user
	}
	for range 98 {
		i.buys("at the shard", next(), it, http.StatusAccepted, "")
	}
	var armed atomic.Bool
	blocked, pass := make(chan struct{}), make(chan struct{})
	i.rush.lanes.stock = &held{
		stock: i.rush.lanes.stock,
		before: func(inventory.Item, int64) {
			if armed.CompareAndSwap(true, false) {
				close(blocked)
				<-pass
			}
		},
		borrow: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	}
	// One decision is held up so that the next batch has two attempts: one for the last unit, one for none.
	l := i.rush.lanes.all.find(it.ID).laneOf(next())
	armed.Store(true)
	gone, cancel := context.WithCancel(t.Context())
	head := mustEnter(t, l, waiter(gone, next()))
	<-blocked
	defer cancel()
	last, short := mustEnter(t, l, waiter(t.Context(), next())), mustEnter(t, l, waiter(t.Context(), next()))
	close(pass)
	v := head.wait(t)
	require.Equal(t, "the attempt before", v.outcome, outQueued)
	require.Equal(t, "the last unit, and none", fmt.Sprint(last.wait(t).outcome, short.wait(t).outcome), fmt.Sprint(outQueued, outTooHot))
}

// A lane that begins while the item's lanes end answers and ends.
func TestLaneBegunAtTheEnd(t *testing.T) {
	t.Parallel()
	y := setup(t, sharded)
	for range 30 {
		it := y.Item(400)
		i := y.instance([]*catalogue.Item{it})
		i.buys("at the first lane", homed(1, 0, 0), it, http.StatusAccepted, "")
		l := i.rush.lanes.all.find(it.ID)
		begin, done := make(chan struct{}), make(chan outcome, 3)
		for shard := range int16(3) {
			go func() {
				<-begin
				a := waiter(t.Context(), homed(5000, shard+1, 1))
				o, in := l.laneOf(a.user).push(a)
				if in {
					o = a.wait(t).outcome
				}
				done <- o
			}()
		}
		close(begin)
		i.rush.lanes.drain()
		for range 3 {
			<-done
		}
	}
}

// While a user's attempt is being decided at one shard, another shard's lane must not have the user's second click
// refused: the first may be granted.
func TestSecondClickWhileAnotherLaneRaisesTheFlag(t *testing.T) {
	t.Parallel()
	y := setup(t, sharded)
	it := y.Item(400)
	i := y.instance([]*catalogue.Item{it}) // hears of returns late: no worker listens
	for user := int64(1); user <= 400; user++ {
		i.buys("one of the units", user, it, http.StatusAccepted, "")
	}
	y.SettleAll(400)
	var before, after atomic.Bool
	blocked, pass := make(chan struct{}), make(chan struct{})
	decided, deliver := make(chan struct{}), make(chan struct{})
	i.rush.lanes.stock = &held{stock: i.rush.lanes.stock, before: func(item inventory.Item, _ int64) {
		if item.Shard == 2 && before.CompareAndSwap(true, false) {
			close(blocked)
			<-pass
		}
	}, after: func(item inventory.Item) {
		if item.Shard == 2 && after.CompareAndSwap(true, false) {
			close(decided)
			<-deliver
		}
	}}
	user := homed(5000, 2, 2)
	first := i.issue(user, it, 1)
	before.Store(true)
	after.Store(true)
	answered := make(chan answer, 1)
	go func() { answered <- i.send(first.Path) }()
	<-blocked
	i.buys("a stranger at another shard", homed(6000, 1, 1), it, http.StatusConflict, "all-held")
	holder := homed(1, 2, 2)
	no, _, _, _, ok, err := y.Stock.Hold(t.Context(), it.Stock(), holder)
	require.Equal(t, "a holder", fmt.Sprint(ok, err), "true <nil>")
	y.Close(no)
	close(pass)
	<-decided // Redis has granted the unit; the answer is on its way
	_, up := i.rush.lanes.all.find(it.ID).flag.refuses(user, ids.NewFor(user))
	close(deliver)
	a := <-answered
	if up && a.Status == http.StatusAccepted {
		t.Error("the second click was refused from memory although the first one got a unit at this instance")
	}
}

// A Redis node that hangs holds up no other shard's shoppers, also when one of these finds that nothing is left.
func TestRaisingTheFlagWaitsForNoLaneThatHangs(t *testing.T) {
	t.Parallel()
	y := setup(t, sharded)
	it := y.Item(400)
	i := y.instance([]*catalogue.Item{it})
	for user := int64(1); user <= 400; user++ {
		i.buys("one of the units", user, it, http.StatusAccepted, "")
	}
	var armed atomic.Bool
	armed.Store(true)
	blocked, pass := make(chan struct{}), make(chan struct{})
	i.rush.lanes.stock = &held{stock: i.rush.lanes.stock, before: func(item inventory.Item, _ int64) {
		if item.Shard == 2 && armed.CompareAndSwap(true, false) {
			close(blocked)
			<-pass
		}
	}}
	hangs, others := i.issue(homed(5000, 2, 2), it, 1), [2]rushPath{i.issue(homed(6000, 1, 1), it, 1), i.issue(homed(6100, 1, 1), it, 1)}
	answers := make(chan answer, 3)
	go func() { answers <- i.send(hangs.Path) }()
	<-blocked
	for _, path := range others {
		go func() { answers <- i.send(path.Path) }()
		select {
		case a := <-answers:
			a.want(t, "a shopper of another shard", http.StatusConflict, "all-held")
		case <-time.After(10 * time.Second):
			t.Error("another shard's shopper waits for the node that hangs")
		}
	}
	close(pass)
	<-answers
	// With nothing held up the next one raises the flag.
	i.buys("a stranger", homed(7000, 1, 1), it, http.StatusConflict, "all-held")
	mustBeUp(t, i, it, outAllHeld)
}
