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
	i.send(i.issue(500, it, 1).Path).want(t, "a full lane", http.StatusTooManyRequests, "too-hot", "1")
	g.open()
	for _, a := range all {
		require.Equal(t, "the answer to an admitted attempt", a.wait(t).outcome, outQueued)
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
	l.lets(t, "the fourth place for one unit", waiter(t.Context(), 200), time.Now(), outTooHot)
	again := make(chan answer, 1)
	go func() { again <- i.send(held.Path) }()
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(l.queue) == 4 }, "the holder was let in")
	// A return removes the bound: the number of returned units is not known
	// here.
	l.returned(l.epoch.Load(), 99)
	waiting = append(waiting, mustEnter(t, l, waiter(t.Context(), 201)))
	g.open()
	(<-again).accepted(t, "the holder", held, "")
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
	l.lets(t, "at the bound", waiter(t.Context(), 1), now, outNone)
	l.learn(&inventory.Decision{Epoch: 1, Remaining: 1000, Seq: lag + 8, Persisted: 7}, false, now)
	l.lets(t, "above the bound", waiter(t.Context(), 2), now.Add(i.rush.cfg.HotFor-1), outTooHot)
	l.lets(t, "to check whether the writer caught up", waiter(t.Context(), 3), now.Add(i.rush.cfg.HotFor), outNone)
	// A clock that is set back does not refuse all attempts until it has caught
	// up.
	l.lets(t, "an hour before", waiter(t.Context(), 4), now.Add(-time.Hour), outNone)
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
		require.Equal(t, "the answer", a.wait(t).outcome, outQueued)
	}
	require.Equal(t, "the answer to the client that left", left.wait(t).outcome, outLeft)
	require.Equal(t, "grants", i.state(it).Seq, 2)
}

// When an item sells out, the waiting attempts are answered without a call to
// Redis.
func TestSellOutAnswersWaitingAttemptsFromMemory(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.FlagLife = time.Minute })
	i.buys("the unit", 1, it, http.StatusAccepted, "")
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
		require.Equal(t, "the answer", a.wait(t).outcome, outAllHeld)
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
	return &attempt{left: func() bool { return ctx.Err() != nil }, user: user, no: ids.NewFor(user), quantity: 1, done: make(chan struct{}, 1)}
}

// lets requires how an attempt to enter is answered: outNone lets it in.
func (l *lane) lets(t *testing.T, what string, a *attempt, now time.Time, want outcome) {
	t.Helper()
	got, in := l.enter(a, now)
	require.Equal(t, what, got, want)
	require.Equal(t, what+": let in", in, want == outNone)
}

func mustEnter(t *testing.T, l *lane, a *attempt) *attempt {
	t.Helper()
	l.lets(t, "an attempt", a, time.Now(), outNone)
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
	l.lets(t, "an ended lane", waiter(t.Context(), 999), time.Now(), outDraining)
	select {
	case <-stopped:
		t.Fatal("stopped with batches in progress")
	default:
	}
	g.open()
	<-stopped
	for _, a := range first {
		require.Equal(t, "the answer to an attempt in progress", a.wait(t).outcome, outQueued)
	}
	for _, a := range waiting {
		require.Equal(t, "the answer to a waiting attempt", a.wait(t).outcome, outDraining)
	}
	i.send(i.issue(5, it, 1).Path).want(t, "after the stop", http.StatusServiceUnavailable, "draining")
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
