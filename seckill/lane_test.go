package seckill

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/auth"
	"stampede/platform/ids"
	"stampede/platform/pgtest"
)

// gate holds up the decisions of an instance until they are let through.
type gate struct {
	asked chan int      // attempts of each decision that waits
	pass  chan struct{} // one for each; closed for all
	open  func()        // lets all through from now on
	total atomic.Int64
}

func (i *instance) gate() *gate {
	g := &gate{asked: make(chan int, 1000), pass: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.pass) })
	i.t.Cleanup(g.open) // before the lanes are drained
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
	case <-time.After(10 * time.Second):
		t.Fatal("an attempt was never answered")
		return verdict{}
	}
}

// busy enters an attempt and returns when its decision is held up, and with it
// the lane.
func busy(t *testing.T, l *lane, g *gate, user int64) []*attempt {
	t.Helper()
	a := mustEnter(t, l, waiter(t.Context(), user))
	<-g.asked
	return []*attempt{a}
}

func TestFullLaneIsTooHot(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(1000)
	i := y.instance([]*Item{it}, func(c *RushConfig) { c.LaneCapacity, c.MinPlaces = 16, 16 })
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
			t.Fatalf("who got in was answered %v", v.outcome)
		}
	}
}

// Beyond the places that what is left allows, strangers are sent away, and who
// may hold a unit is not.
func TestPlacesFollowWhatIsLeft(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(2)
	i := y.instance([]*Item{it}, func(c *RushConfig) { c.MinPlaces = 1 })
	held, a := i.buy(1, it)
	if a.Status != http.StatusAccepted {
		t.Fatalf("%+v", a)
	}
	g := i.gate()
	l := i.rush.lanes.find(it.ID)
	waiting := busy(t, l, g, 10)
	for k := range int64(3) { // one unit is left
		waiting = append(waiting, mustEnter(t, l, waiter(t.Context(), 100+k)))
	}
	if o, in := l.enter(waiter(t.Context(), 200), time.Now()); in || o != outTooHot {
		t.Fatalf("the fourth place for one unit: %v, %v", o, in)
	}
	again := make(chan answer, 1)
	go func() { again <- i.send(held.Path) }()
	pgtest.Eventually(t, 5*time.Second, func() bool { return len(l.queue) == 4 }, "the holder was let in")
	g.open()
	if a := <-again; a.Status != http.StatusAccepted || a.OrderNo != held.OrderNo {
		t.Fatalf("the holder: %+v", a)
	}
	for _, w := range waiting {
		w.wait(t)
	}
	// A return lifts the bound: how many came back is not known here.
	if l.places.Load() < 0 {
		t.Fatal("no bound after a decision")
	}
	l.returned(l.epoch.Load(), 99)
	if l.places.Load() >= 0 {
		t.Fatal("bound after a return")
	}
}

func TestLaggingWriterIsTooHotForAWhile(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(10)
	i := y.instance([]*Item{it})
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
		t.Fatal("nobody is let in to see whether the writer caught up")
	}
}

func TestAttemptOfAClientThatLeftIsDropped(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(10)
	i := y.instance([]*Item{it})
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
		t.Fatalf("who left was answered %v", v.outcome)
	}
	if st := i.state(it); st.Seq != 2 {
		t.Fatalf("%d grants, want 2", st.Seq)
	}
}

// When an item sells out, those who wait are answered without asking Redis.
func TestWhoWaitsAtTheSellOutIsAnsweredFromMemory(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(1)
	i := y.instance([]*Item{it}, func(c *RushConfig) { c.FlagLife = time.Minute })
	if _, a := i.buy(1, it); a.Status != http.StatusAccepted {
		t.Fatalf("%+v", a)
	}
	g := i.gate()
	l := i.rush.lanes.find(it.ID)
	first := busy(t, l, g, 10)
	var waiting []*attempt
	for k := range int64(50) {
		waiting = append(waiting, mustEnter(t, l, waiter(t.Context(), 100+k)))
	}
	// The decision raises the flag before more are taken.
	g.pass <- struct{}{}
	for _, a := range waiting {
		if v := a.wait(t); v.outcome != outAllHeld {
			t.Fatalf("%v", v.outcome)
		}
	}
	if n := g.total.Load(); n != 1 {
		t.Fatalf("Redis was asked about %d attempts, want 1", n)
	}
	g.open()
	for _, a := range first {
		a.wait(t)
	}
}

// A stop answers who waits and finishes what is under way.
func TestDrainAnswersEverybody(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(10)
	i := y.instance([]*Item{it})
	stop := i.work()
	g := i.gate()
	pgtest.Eventually(t, 5*time.Second, func() bool { return !i.rush.lanes.draining.Load() }, "working")
	l := i.rush.lanes.open(it.ID)
	first := busy(t, l, g, 1)
	var waiting []*attempt
	for k := range int64(20) {
		waiting = append(waiting, mustEnter(t, l, waiter(t.Context(), 100+k)))
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	pgtest.Eventually(t, 5*time.Second, l.hasEnded, "the lane ended")
	if o, in := l.enter(waiter(t.Context(), 999), time.Now()); in || o != outDraining {
		t.Fatalf("entered an ended lane: %v", o)
	}
	select {
	case <-stopped:
		t.Fatal("stopped with batches under way")
	default:
	}
	g.open()
	<-stopped
	for _, a := range first {
		if v := a.wait(t); v.outcome != outQueued {
			t.Fatalf("under way: %v", v.outcome)
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
	y := newYard(t)
	it, other := y.item(10), y.item(10)
	i := y.instance([]*Item{it, other})
	l, stays := i.rush.lanes.open(it.ID), i.rush.lanes.open(other.ID)
	i.show(other)
	i.work()
	pgtest.Eventually(t, 5*time.Second, l.hasEnded, "the lane ended")
	if i.rush.lanes.find(it.ID) != nil || i.rush.lanes.find(other.ID) != stays || stays.hasEnded() {
		t.Fatal("the wrong lane ended")
	}
}

// What was certainly not stored is not given back by hand either, and who was
// not granted anything hears so at once.
func TestFailingPublicationIsUnknownAndKeepsTheHold(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(1)
	i := y.instance([]*Item{it})
	i.rush.lanes.bus = &faultyStream{grantStream: i.bus, publish: func(func() error) error { return errors.New("broken on purpose") }}
	p := i.issue(1, it, 1)
	if a := i.send(p.Path); a.Status != http.StatusServiceUnavailable || a.Code != "unknown" || a.RetryAfter != "1" {
		t.Fatalf("%+v", a)
	}
	if st := i.state(it); st.Remaining != 0 || st.Seq != 1 {
		t.Fatalf("%+v", st)
	}
	position, item, ok, err := i.svc.Queued(t.Context(), 1, parse(t, p.OrderNo))
	if err != nil || !ok || item != it.ID || position != 1 {
		t.Fatalf("asking for the number: %d %d %v %v", position, item, ok, err)
	}
}

// streamDown takes the instance's stream of grants away until it stores false.
func (i *instance) streamDown() *atomic.Bool {
	down := new(atomic.Bool)
	down.Store(true)
	i.rush.lanes.bus = &faultyStream{grantStream: i.bus, publish: func(send func() error) error {
		if down.Load() {
			return errors.New("broken on purpose")
		}
		return send()
	}}
	return down
}

// A 202 stands for a message that is on disk, also when the path is sent again:
// while the first publication failed, the repetition is unknown, and the first
// one that succeeds carries the grant.
func TestARepetitionIsPromisedOnlyOncePublished(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(1)
	i := y.instance([]*Item{it})
	down := i.streamDown()
	p := i.issue(1, it, 1)
	for range 2 {
		if a := i.send(p.Path); a.Code != "unknown" {
			t.Fatalf("while nothing is stored: %+v", a)
		}
	}
	down.Store(false)
	if a := i.send(p.Path); a.Status != http.StatusAccepted || a.OrderNo != p.OrderNo || a.State != "queued" {
		t.Fatalf("once it can be stored: %+v", a)
	}
	y.write()
	pgtest.Eventually(t, 5*time.Second, func() bool { return y.orders.count() == 1 }, "the order of the repeated grant")
}

// The number in already-bought is as much a promise as the one in a 202: it is
// named only once its message is on disk, with the units that it holds.
func TestTheNumberInAlreadyBoughtIsPublishedFirst(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(3, func(it *Item) { it.UserLimit = 2 })
	i := y.instance([]*Item{it})
	down := i.streamDown()
	first, second := i.issue(1, it, 2), i.issue(1, it, 1)
	for _, p := range []PathGrant{first, second} {
		if a := i.send(p.Path); a.Code != "unknown" {
			t.Fatalf("while nothing is stored: %+v", a)
		}
	}
	down.Store(false)
	if a := i.send(second.Path); a.Status != http.StatusConflict || a.Code != "already-bought" || a.OrderNo != first.OrderNo {
		t.Fatalf("once it can be stored: %+v", a)
	}
	y.write()
	pgtest.Eventually(t, 5*time.Second, func() bool { return y.orders.count() == 1 }, "the order of the number that was named")
	if o, ok, err := y.orders.Get(t.Context(), parse(t, first.OrderNo)); err != nil || !ok || o.Quantity != 2 {
		t.Fatalf("the order: %+v, %v, %v", o, ok, err)
	}
}

func TestAdmissionRateIsLiveEverywhere(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(1000)
	a, b := y.instance([]*Item{it}), y.instance([]*Item{it})
	a.work()
	b.work()
	held, got := a.buy(1, it)
	if got.Status != http.StatusAccepted {
		t.Fatalf("%+v", got)
	}
	b.buy(2, it)

	set := func(body, role string) int {
		token, err := auth.NewTokens(testKey, time.Now).Mint(auth.Principal{UserID: 99, Role: auth.Role(role)}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest(http.MethodPut, "/api/v1/admin/items/1/admission", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		rec := httptest.NewRecorder()
		a.rt.ServeHTTP(rec, req)
		return rec.Code
	}
	if c := set(`{"per_second":1}`, "shopper"); c != http.StatusForbidden {
		t.Fatalf("a shopper set the rate: %d", c)
	}
	if c := set(`{"per_second":1}`, "operator"); c != http.StatusOK {
		t.Fatalf("%d", c)
	}
	for n, i := range []*instance{a, b} {
		pgtest.Eventually(t, 5*time.Second, func() bool { return i.rush.lanes.find(it.ID).limiter.Load() != nil }, "the rate took effect")
		refused := 0
		for k := range int64(10) {
			if _, got := i.buy(int64(n+1)*100+k, it); got.Code == "too-hot" {
				refused++
			}
		}
		if refused < 5 {
			t.Fatalf("instance %d refused %d of 10 at one a second", n, refused)
		}
	}
	if got := a.send(held.Path); got.Status != http.StatusAccepted {
		t.Fatalf("a holder was held up: %+v", got)
	}
	if c := set(`{"per_second":0}`, "operator"); c != http.StatusOK {
		t.Fatalf("%d", c)
	}
	for _, i := range []*instance{a, b} {
		pgtest.Eventually(t, 5*time.Second, func() bool { return i.rush.lanes.find(it.ID).limiter.Load() == nil }, "the rate was lifted")
	}
	var entries int
	if err := y.db.QueryRow(t.Context(), `SELECT count(*) FROM platform.audit WHERE action = 'item.admission' AND actor = 99`).Scan(&entries); err != nil || entries != 2 {
		t.Fatalf("%d audit entries (%v)", entries, err)
	}
}

// Many items at once, each with its own lane; all counts agree.
func TestFunnelCountsEveryAnswer(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	items := []*Item{y.item(20), y.item(30)}
	i := y.instance(items)
	const shoppers = 100
	var wg sync.WaitGroup
	for _, it := range items {
		for u := range int64(shoppers) {
			p := i.issue(u+1, it, 1)
			wg.Go(func() { i.send(p.Path) })
		}
	}
	wg.Wait()
	for _, it := range items {
		f := i.svc.Funnel(it.ID)
		sum := int64(0)
		for _, n := range f {
			sum += n
		}
		if sum != shoppers || f["queued"] != int64(it.Total) {
			t.Fatalf("item with %d units: %v", it.Total, f)
		}
	}
	if f := i.svc.Funnel(12345); len(f) != 0 {
		t.Fatalf("an unknown item: %v", f)
	}
}
