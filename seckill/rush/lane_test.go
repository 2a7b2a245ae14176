package rush

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

func TestFullLaneIsTooHot(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1000)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.LaneCapacity, c.MinPlaces = 16, 16 })
	g := i.gate()
	l := i.rush.lanes.open(it.ID)
	all := busy(t, l, g, 1)
	for k := range int64(16) {
		all = append(all, mustEnter(t, l, waiter(t.Context(), 100+k)))
	}
	if a := i.send(i.issue(500, it, 1).Path); a.Status != http.StatusTooManyRequests || a.Code != "too-hot" || a.RetryAfter != "1" {
		t.Fatalf("%+v", a)
	}
	g.open()
	for _, a := range all {
		if v := a.wait(t); v.outcome != outQueued {
			t.Fatalf("an admitted attempt was answered %v", v.outcome)
		}
	}
}

// Beyond the places that the remaining units allow, strangers are refused, and
// users who may hold a unit are not.
func TestPlacesFollowWhatIsLeft(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(2)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.MinPlaces = 1 })
	held, a := i.buy(1, it)
	a.want(t, "", http.StatusAccepted, "")
	g := i.gate()
	l := i.rush.lanes.all.find(it.ID)
	waiting := busy(t, l, g, 10)
	for k := range int64(3) { // one unit is left
		waiting = append(waiting, mustEnter(t, l, waiter(t.Context(), 100+k)))
	}
	if o, in := l.enter(waiter(t.Context(), 200), time.Now()); in || o != outTooHot {
		t.Fatalf("the fourth place for one unit: %v, %v", o, in)
	}
	again := make(chan answer, 1)
	go func() { again <- i.send(held.Path) }()
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(l.queue) == 4 }, "the holder was let in")
	// A return removes the bound: the number of returned units is not known
	// here.
	l.returned(l.epoch.Load(), 99)
	waiting = append(waiting, mustEnter(t, l, waiter(t.Context(), 201)))
	g.open()
	if a := <-again; a.Status != http.StatusAccepted || a.OrderNo != held.OrderNo {
		t.Fatalf("the holder: %+v", a)
	}
	for _, w := range waiting {
		w.wait(t)
	}
}

func TestLaggingWriterIsTooHotForAWhile(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	l := i.rush.lanes.open(it.ID)
	now := time.Now()
	lag := i.rush.cfg.MaxWriterLag
	l.learn(&inventory.Decision{Epoch: 1, Remaining: 1000, Seq: lag + 7, Persisted: 7}, false, now)
	if _, in := l.enter(waiter(t.Context(), 1), now); !in {
		t.Fatal("refused at the bound")
	}
	l.learn(&inventory.Decision{Epoch: 1, Remaining: 1000, Seq: lag + 8, Persisted: 7}, false, now)
	if o, in := l.enter(waiter(t.Context(), 2), now.Add(i.rush.cfg.HotFor-1)); in || o != outTooHot {
		t.Fatalf("above the bound: %v, %v", o, in)
	}
	if _, in := l.enter(waiter(t.Context(), 3), now.Add(i.rush.cfg.HotFor)); !in {
		t.Fatal("no attempt is admitted to check whether the writer caught up")
	}
	// A clock that is set back does not refuse all attempts until it has caught
	// up.
	if o, in := l.enter(waiter(t.Context(), 4), now.Add(-time.Hour)); !in {
		t.Fatalf("an hour before: %v", o)
	}
}

func TestAttemptOfAClientThatLeftIsDropped(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	g := i.gate()
	l := i.rush.lanes.open(it.ID)
	first := busy(t, l, g, 1)
	ctx, leave := context.WithCancel(t.Context())
	left, stayed := mustEnter(t, l, waiter(ctx, 50)), mustEnter(t, l, waiter(t.Context(), 51))
	leave()
	g.open()
	for _, a := range append(first, stayed) {
		if v := a.wait(t); v.outcome != outQueued {
			t.Fatalf("%v", v.outcome)
		}
	}
	if v := left.wait(t); v.outcome != outLeft {
		t.Fatalf("the client that left was answered %v", v.outcome)
	}
	if st := i.state(it); st.Seq != 2 {
		t.Fatalf("%d grants, want 2", st.Seq)
	}
}

// When an item sells out, the waiting attempts are answered without a call to
// Redis.
func TestSellOutAnswersWaitingAttemptsFromMemory(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.FlagLife = time.Minute })
	if _, a := i.buy(1, it); a.Status != http.StatusAccepted {
		t.Fatalf("%+v", a)
	}
	g := i.gate()
	l := i.rush.lanes.all.find(it.ID)
	first := busy(t, l, g, 10)
	var waiting []*attempt
	for k := range int64(50) {
		waiting = append(waiting, mustEnter(t, l, waiter(t.Context(), 100+k)))
	}
	// The decision raises the flag before the next batch is taken.
	g.pass <- struct{}{}
	for _, a := range waiting {
		if v := a.wait(t); v.outcome != outAllHeld {
			t.Fatalf("%v", v.outcome)
		}
	}
	require.Equal(t, "attempts that Redis decided", g.total.Load(), 1)
	g.open()
	for _, a := range first {
		a.wait(t)
	}
}

// gate blocks the decisions of an instance until the test lets them through.
type gate struct {
	asked chan int      // attempts of each decision that waits
	pass  chan struct{} // one for each; closed for all
	open  func()        // lets all decisions through from now on
	total atomic.Int64
}

func (i *instance) gate() *gate {
	g := &gate{asked: make(chan int, 1000), pass: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.pass) })
	i.T.Cleanup(g.open) // before the lanes are drained
	inner := i.rush.lanes.stock
	i.rush.lanes.stock = &faultyStock{stock: inner, reserve: func(n int, decide func() error) error {
		g.total.Add(int64(n))
		g.asked <- n
		<-g.pass
		return decide()
	}}
	return g
}

// waiter is an attempt that is put into a lane without a handler.
func waiter(ctx context.Context, user int64) *attempt {
	return &attempt{ctx: ctx, user: user, no: ids.NewFor(user), quantity: 1, done: make(chan struct{}, 1)}
}

func mustEnter(t *testing.T, l *lane, a *attempt) *attempt {
	t.Helper()
	if o, in := l.enter(a, time.Now()); !in {
		t.Fatalf("refused as %v", o)
	}
	return a
}

func (a *attempt) wait(t *testing.T) verdict {
	t.Helper()
	select {
	case <-a.done:
		return a.verdict
	case <-time.After(30 * time.Second):
		t.Fatal("an attempt was never answered")
		return verdict{}
	}
}

// busy enters an attempt and returns when its decision is blocked, and with it
// the lane.
func busy(t *testing.T, l *lane, g *gate, user int64) []*attempt {
	t.Helper()
	a := mustEnter(t, l, waiter(t.Context(), user))
	<-g.asked
	return []*attempt{a}
}

// A stop answers the waiting attempts and finishes the batches in progress.
func TestDrainAnswersEveryAttempt(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	stop := i.work()
	g := i.gate()
	pgtest.Eventually(t, 30*time.Second, func() bool { return !i.rush.lanes.draining.Load() }, "working")
	l := i.rush.lanes.open(it.ID)
	first := busy(t, l, g, 1)
	var waiting []*attempt
	for k := range int64(20) {
		waiting = append(waiting, mustEnter(t, l, waiter(t.Context(), 100+k)))
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	pgtest.Eventually(t, 30*time.Second, l.hasEnded, "the lane ended")
	if o, in := l.enter(waiter(t.Context(), 999), time.Now()); in || o != outDraining {
		t.Fatalf("entered an ended lane: %v", o)
	}
	select {
	case <-stopped:
		t.Fatal("stopped with batches in progress")
	default:
	}
	g.open()
	<-stopped
	for _, a := range first {
		if v := a.wait(t); v.outcome != outQueued {
			t.Fatalf("in progress: %v", v.outcome)
		}
	}
	for _, a := range waiting {
		if v := a.wait(t); v.outcome != outDraining {
			t.Fatalf("waiting: %v", v.outcome)
		}
	}
	if a := i.send(i.issue(5, it, 1).Path); a.Code != "draining" {
		t.Fatalf("%+v", a)
	}
}

func TestLaneEndsWithItsItem(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it, other := y.Item(10), y.Item(10)
	i := y.instance([]*catalogue.Item{it, other})
	l, stays := i.rush.lanes.open(it.ID), i.rush.lanes.open(other.ID)
	i.listing.Show(other)
	i.work()
	pgtest.Eventually(t, 30*time.Second, l.hasEnded, "the lane ended")
	if i.rush.lanes.all.find(it.ID) != nil || i.rush.lanes.all.find(other.ID) != stays || stays.hasEnded() {
		t.Fatal("the wrong lane ended")
	}
}
