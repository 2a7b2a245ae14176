package rush

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/seckill/catalogue"
)

// idle gives an item a lane without workers, so that the test runs its batches
// itself.
func (i *instance) idle(it *catalogue.Item) *lane {
	return i.rush.lanes.all.findOrAdd(it.ID, func() *lane { return newLane(it.ID, i.rush.lanes) })
}

// turn runs the waiting attempts through the lane as a batch; the channel is
// closed when the batch is done.
func turn(l *lane) <-chan struct{} {
	done := make(chan struct{})
	go func() { defer close(done); newLaneWorker(l).turn() }()
	return done
}

// soldOnce sells the item's only unit, raises the flag and gives the unit back,
// which the instance learns from the broadcast. From then on the filter knows
// every holder without reading.
func (i *instance) soldOnce(t *testing.T, it *catalogue.Item, l *lane) {
	t.Helper()
	first := mustEnter(t, l, waiter(t.Context(), 1))
	<-turn(l)
	second := mustEnter(t, l, waiter(t.Context(), 2))
	<-turn(l)
	if v := second.wait(t); first.wait(t).outcome != outQueued || v.outcome != outAllHeld {
		t.Fatalf("the second shopper was answered %v", v.outcome)
	}
	mustBeUp(t, i, it, outAllHeld)
	i.SettleAll(1)
	i.Close(first.no)
	l.returned(l.epoch.Load(), 1)
	if _, up := l.flag.refuses(3, ids.ID{}); up {
		t.Fatal("the flag is up after a return")
	}
}

// A unit comes back while the batch that sold the last one is still being
// published, and the next batch gets it. Until its answer arrives the filter does
// not know the winner, so the flag of the earlier batch must not be raised in
// between: the winner's second click would be answered all-held.
func TestFlagRefusesNoWinnerWhileRedisGrants(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.FlagLife = time.Minute })
	var holdPublication, holdReply atomic.Bool
	published, decided := make(chan struct{}), make(chan struct{})
	goOn, reply := make(chan struct{}), make(chan struct{})
	i.rush.lanes.grants = &faultyStream{grants: i.queue, publish: func(send func() error) error {
		err := send()
		if holdPublication.Swap(false) {
			close(published)
			<-goOn
		}
		return err
	}}
	i.rush.lanes.stock = &faultyStock{stock: i.rush.lanes.stock, reserve: func(_ int, decide func() error) error {
		err := decide()
		if holdReply.Swap(false) {
			close(decided)
			<-reply
		}
		return err
	}}
	l := i.idle(it)
	i.soldOnce(t, it, l)

	third, fourth := mustEnter(t, l, waiter(t.Context(), 3)), mustEnter(t, l, waiter(t.Context(), 4))
	holdPublication.Store(true)
	selling := turn(l)
	<-published
	if v := fourth.wait(t); v.outcome != outAllHeld {
		t.Fatalf("the late shopper was answered %v", v.outcome)
	}
	i.SettleAll(2)
	i.Close(third.no) // the broadcast of this return is still on its way

	fifth := mustEnter(t, l, waiter(t.Context(), 5))
	holdReply.Store(true)
	next := turn(l)
	select {
	case <-decided: // Redis has granted, the answer is on its way
	case <-next: // the flag refused the attempt
	}
	close(goOn)
	<-selling
	_, refused := l.flag.refuses(5, ids.ID{})
	close(reply)
	<-next
	if v := fifth.wait(t); refused && v.outcome == outQueued {
		t.Fatal("a winner's second click was refused by the flag")
	} else if !refused {
		t.Fatalf("the flag of the batch that sold the last unit is not up; the fifth shopper was answered %v", v.outcome)
	}
}

// A decision that timed out may still be made: the users in its batch are not
// refused from memory.
func TestFlagSparesUsersOfATimedOutDecision(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.FlagLife = time.Minute })
	var late atomic.Bool
	i.rush.lanes.stock = &faultyStock{stock: i.rush.lanes.stock, reserve: func(_ int, decide func() error) error {
		if late.Swap(false) {
			return errors.New("no answer in time")
		}
		return decide()
	}}
	l := i.idle(it)
	i.soldOnce(t, it, l)

	path := i.issue(5, it, 1)
	fifth := waiter(t.Context(), 5)
	fifth.no = parse(t, path.OrderNo)
	late.Store(true)
	mustEnter(t, l, fifth)
	<-turn(l)
	if v := fifth.wait(t); v.outcome != outUnknown {
		t.Fatalf("without an answer of Redis: %v", v.outcome)
	}
	third, fourth := mustEnter(t, l, waiter(t.Context(), 3)), mustEnter(t, l, waiter(t.Context(), 4))
	<-turn(l)
	third.wait(t)
	fourth.wait(t)
	mustBeUp(t, i, it, outAllHeld)
	i.SettleAll(2)
	i.Close(third.no)
	var d inventory.Decision
	if err := i.Stock.Reserve(t.Context(), it.Stock(), l.epoch.Load(), []inventory.Attempt{{User: 5, No: fifth.no, Quantity: 1}}, &d); err != nil || d.Results[0].Verdict != inventory.Granted {
		t.Fatalf("the late decision: %+v, %v", d, err)
	}
	if o, up := l.flag.refuses(6, ids.ID{}); !up || o != outAllHeld {
		t.Fatal("the flag is not up for strangers")
	}
	again := turn(l)
	if a := i.send(path.Path); a.Status != http.StatusAccepted || a.OrderNo != path.OrderNo {
		t.Fatalf("the same path again: %+v", a)
	}
	<-again
}
