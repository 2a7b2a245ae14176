package rush

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
)

func TestQueued(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(100)
	other := y.Item(100)
	a, b := y.instance([]*catalogue.Item{it, other}), y.instance([]*catalogue.Item{other, it})
	const shoppers = 20
	var nos []ids.ID
	for u := range int64(shoppers) {
		p, got := a.buy(u+1, it)
		got.accepted(t, "a shopper", p, "")
		require.Equal(t, "the position", got.Position, u+1)
		nos = append(nos, parse(t, p.OrderNo))
	}
	never := a.issue(500, it, 1)
	// A shopper at place 3 never gets place 10, whatever Redis says.
	a.rush.places.numbers.put(nos[9], told{item: it.ID, position: 3})
	a.inLine("the third", 10, nos[9], it, 3)
	a.rush.places.numbers.put(nos[9], told{item: it.ID, position: noPosition})
	// The instance that granted knows the item immediately; the other one finds
	// it.
	for name, i := range map[string]*instance{"the instance that granted": a, "the other instance": b} {
		for u, no := range nos {
			i.inLine(name, int64(u)+1, no, it, int64(u)+1)
		}
		i.inLine(name+", a number that was never used", 500, parse(t, never.OrderNo), nil, 0)
		i.inLine(name+", another user's number", 2, nos[0], nil, 0)
	}
}

// However the writer proceeds, no shopper's position rises from one poll to the
// next.
func TestPositionNeverRises(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(200)
	i := y.instance([]*catalogue.Item{it})
	const shoppers = 60
	nos := make([]ids.ID, shoppers)
	last := make([]int64, shoppers)
	for u := range nos {
		p, a := i.buy(int64(u)+1, it)
		nos[u], last[u] = parse(t, p.OrderNo), a.Position
	}
	poll := func() (sum int64) {
		for u, no := range nos {
			position, _, ok, err := i.rush.places.Queued(t.Context(), int64(u)+1, no)
			if err != nil {
				t.Fatalf("shopper %d: %v", u+1, err)
			}
			if !ok {
				position = 0 // the order is written
			}
			if position > last[u] {
				t.Fatalf("shopper %d went from %d to %d", u+1, last[u], position)
			}
			last[u] = position
			sum += position
		}
		return sum
	}
	poll()
	y.Write()
	next := int64(1000)
	pgtest.Eventually(t, time.Minute, func() bool {
		i.buy(next, it) // others join the end of the line
		next++
		return poll() == 0 && next > 1010
	}, "every order is written")
}

// A made-up number costs a call to Redis for at most the one item that it names,
// however many items are on sale; so does a real one after a restart.
func TestNumberIsLookedUpForItsItemOnly(t *testing.T) {
	t.Parallel()
	y := setup(t)
	items := make([]*catalogue.Item, 5)
	for n := range items {
		items[n] = y.Item(10)
	}
	i := y.instance(items)
	p, _ := i.buy(1, items[3])
	restarted := y.instance(items)
	calls := 0
	restarted.rush.places.stock = &faultyStock{stock: restarted.rush.places.stock, onHold: func() { calls++ }}
	restarted.inLine("after a restart", 1, parse(t, p.OrderNo), items[3], 1)
	require.Equal(t, "calls", calls, 1)
	calls = 0
	const polls = 50
	for range polls {
		restarted.inLine("a made-up number", 2, ids.NewFor(2), nil, 0)
	}
	if calls > polls/10 {
		t.Errorf("%d polls of made-up numbers cost %d calls", polls, calls)
	}
}

// A terminated activity whose state is gone delays no answer until the end that
// was planned for it.
func TestQueuedIsSureAboutATerminatedItem(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	p := i.issue(1, it, 1)
	require.NoError(t, y.Redis.FlushDB(t.Context()).Err())
	terminated := *it
	terminated.OnSale = false
	i.listing.Show(&terminated)
	i.inLine("a number that holds nothing", 1, parse(t, p.OrderNo), nil, 0)
}

// Redis was restarted after it had granted a number that is in no message yet: the end of the sale makes no stranger of
// its shopper.
func TestQueuedIsNotSureOfAHoldOfAnotherRun(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	i.rush.lanes.grants = &faultyStream{grants: i.queue, publish: func(func() error) error { return errors.New("the power is off") }}
	p, a := i.buy(1, it)
	a.want(t, "without its message", http.StatusServiceUnavailable, "unknown")
	stranger := i.issue(2, it, 1)
	y.otherRun()
	i.clock.Advance(2 * time.Hour)
	if _, _, _, err := i.rush.places.Queued(t.Context(), 1, parse(t, p.OrderNo)); err == nil {
		t.Fatal("sure about a number that holds a unit")
	}
	i.inLine("a number that holds nothing", 2, parse(t, stranger.OrderNo), nil, 0)
}

// A number whose place is unknown is not reported as out of line.
func TestQueuedIsNotSureWithoutItsState(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	p, _ := i.buy(1, it)
	require.NoError(t, y.Redis.FlushDB(t.Context()).Err())
	no := parse(t, p.OrderNo)
	if _, _, _, err := i.rush.places.Queued(t.Context(), 1, no); err == nil {
		t.Fatal("sure about a number although its item's state is gone")
	}
	// After the end of the sale the state is removed on purpose: then the grants
	// in the stream decide.
	i.clock.Advance(2 * time.Hour)
	if _, _, _, err := i.rush.places.Queued(t.Context(), 1, no); err == nil {
		t.Fatal("sure although its grant is still to be written")
	}
	y.SettleAll(1)
	i.inLine("a settled number", 1, no, nil, 0)
}

func TestNumbersRememberWithoutAllocating(t *testing.T) {
	n := newNumbers(512 << 10)
	no := ids.NewFor(1)
	if _, ok := n.get(no); ok {
		t.Fatal("knows a number that was never put")
	}
	for _, want := range []told{{math.MaxInt64, noPosition, false}, {1, 2, true}, {1, 2, false}} {
		n.put(no, want)
		if got, ok := n.get(no); !ok || got != want {
			t.Fatalf("%+v %v", got, ok)
		}
	}
	require.Equal(t, "allocations", testing.AllocsPerRun(100, func() { n.put(no, told{item: 1, position: 2}); n.get(no) }), 0)
}

// otherRun makes the states of all items name a past run of Redis, as a restart
// with its data does.
func (y *bundle) otherRun() { y.SetState("run_id", strings.Repeat("0", 40)) }

// The server was killed, NATS lost its folder and Redis was restarted with its
// data: a number that was answered 202 becomes an order before the item sells
// again, and no unit is given twice.
func TestLoadPublishesGrantsWhoseMessagesWereLost(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(3)
	before := y.instance([]*catalogue.Item{it})
	written, _ := before.buy(1, it)
	y.SettleAll(1)
	queued, a := before.buy(2, it)
	a.want(t, "", http.StatusAccepted, "")

	y.Bus = bustest.Open(t)
	y.otherRun()
	y.Stock = y.NewStock(func(c *inventory.Config) { c.SingleInstance, c.PublishDeadline = true, time.Minute })
	after := y.instance([]*catalogue.Item{it})
	y.Write()
	y.Load(it)

	for _, p := range []rushPath{written, queued} {
		if o, ok, _ := y.Orders.Get(t.Context(), parse(t, p.OrderNo)); !ok || o.Status != orderevent.StatusPending {
			t.Errorf("number %s has the order %+v", p.OrderNo, o)
		}
		after.send(p.Path).accepted(t, "sent again", p, orderevent.StatusPending)
	}
	if st := after.state(it); st.Remaining != 1 || !st.Ready() || y.Orders.Twice != 0 {
		t.Errorf("%+v, %d orders created twice", st, y.Orders.Twice)
	}
	republished := seckilltest.Counted(t, after.metrics, "stampede_seckill_swept_holds_total", "republished")
	require.Equal(t, "grants published again", republished, 1)
}

// A path whose order was closed gets the end of its number after a Load too,
// also from an instance that did not grant it, while a flag refuses strangers.
func TestClosedNumberKeepsItsAnswerAfterALoad(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	before := y.instance([]*catalogue.Item{it})
	first, _ := before.buy(1, it)
	y.Write()
	pgtest.Eventually(t, 30*time.Second, func() bool { return before.state(it).Persisted == 1 }, "the order written")
	y.Close(parse(t, first.OrderNo))
	before.buys("the unit that came back", 2, it, http.StatusAccepted, "")
	y.otherRun()
	y.Load(it)

	after := y.instance([]*catalogue.Item{it}, func(c *Config) { c.FlagLife = time.Minute })
	after.buys("a stranger", 3, it, http.StatusConflict, "all-held")
	mustBeUp(t, after, it, outAllHeld)
	after.send(first.Path).accepted(t, "sent again", first, orderevent.StatusClosed)
	after.buys("another path of its user", 1, it, http.StatusConflict, "all-held")
}
