package rush

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

// line is the line before an item with a rate, on several instances. Its turns come by
// the test's clock.
type line struct {
	*bundle
	it  *catalogue.Item
	at  []*instance
	now atomic.Int64 // Unix µs

	counts []*atomic.Int64 // how often each instance has read the clock
}

func (y *bundle) line(instances int, units, perSecond int32, change ...func(*catalogue.Item)) *line {
	y.T.Helper()
	l := &line{bundle: y, it: y.Item(units, change...)}
	l.it.Admission = &perSecond
	l.now.Store(time.Now().UnixMicro())
	for range instances {
		i := y.instance([]*catalogue.Item{l.it}, func(c *Config) { c.MinPlaces, c.FlagLife = 1, time.Minute })
		counts := new(atomic.Int64)
		i.rush.lanes.open(l.it.ID).pace.turns.now = func() int64 { counts.Add(1); return l.now.Load() }
		l.at, l.counts = append(l.at, i), append(l.counts, counts)
	}
	return l
}

func (l *line) lane(at int) *lane { return l.at[at].rush.lanes.all.find(l.it.ID) }

// later moves the clock, and counts the turns that have come until then.
func (l *line) later(d time.Duration) (reached int64) {
	l.T.Helper()
	l.now.Add(d.Microseconds())
	_, reached, err := l.lane(0).pace.turns.count(l.T.Context(), *l.it.Admission, 0, nil, nil)
	require.NoError(l.T, err)
	return reached
}

// changes changes the item as operators do, on every instance.
func (l *line) changes(change func(it *catalogue.Item)) {
	l.T.Helper()
	next := *l.it
	change(&next)
	l.it = &next
	for _, i := range l.at {
		i.listing.Show(l.it)
	}
}

func (l *line) rate(perSecond *int32) {
	l.T.Helper()
	l.changes(func(it *catalogue.Item) { it.Admission = perSecond })
}

// settles waits until every instance counts by the new rate: a step that is under way may
// have read the one before, and would count the time to come by it. A shopper must be in line.
func (l *line) settles() {
	l.T.Helper()
	for at := range l.at {
		for range 2 {
			seen := l.counts[at].Load()
			pgtest.Eventually(l.T, 30*time.Second, func() bool {
				app.Kick(l.lane(at).pace.wake)
				return l.counts[at].Load() > seen
			}, "the instance counts turns")
		}
	}
}

// enters puts the attempts of users from … until into an instance's line.
func (l *line) enters(at int, from, until int64) (all []*attempt) {
	l.T.Helper()
	for user := from; user <= until; user++ {
		a := waiter(l.T.Context(), user)
		a.admission = l.it.Admission
		all = append(all, mustEnter(l.T.(*testing.T), l.lane(at), a))
	}
	return all
}

// passes waits until so many attempts were let in, on all instances together.
func (l *line) passes(what string, want int64) {
	l.T.Helper()
	passed := int64(0)
	pgtest.Eventually(l.T, 30*time.Second, func() bool {
		passed = 0
		for at := range l.at {
			passed += l.lane(at).pace.passed.Load()
		}
		return passed >= want
	}, what)
	require.Equal(l.T, what, passed, want)
}

// The rate is that of all instances together, in steps of a tenth of a second at most,
// and each instance keeps the order.
func TestRateIsThatOfAllInstances(t *testing.T) {
	t.Parallel()
	l := setup(t).line(2, 1000, 100)
	all := [][]*attempt{l.enters(0, 1, 40), l.enters(1, 101, 140)}
	l.passes("a tenth of a second's worth at first", 10)
	for step := range int64(14) {
		l.later(50 * time.Millisecond)
		l.passes("50 ms later", 15+5*step)
	}
	for _, attempts := range all {
		before := int64(0)
		for _, a := range attempts {
			v := a.wait(t)
			if v.outcome != outQueued || v.position <= before {
				t.Fatalf("%v at %d, behind %d", v.outcome, v.position, before)
			}
			before = v.position
		}
	}
	// An empty line saves up no more than that.
	l.later(time.Minute)
	l.enters(0, 201, 240)
	l.passes("after a minute without shoppers", 90)
}

// A shopper whose turn is further away than a request should wait is told so, and keeps
// their place: for the same path, a new one, and on every instance.
func TestPlaceIsKept(t *testing.T) {
	t.Parallel()
	l := setup(t).line(2, 1000, 1)
	soon := l.enters(0, 1, 4)
	require.Equal(t, "the first", soon[0].wait(t).outcome, outQueued)
	paths := map[int64]rushPath{}
	for user := int64(5); user <= 10; user++ {
		paths[user] = l.at[0].issue(user, l.it, 1)
		a := l.at[0].send(paths[user].Path)
		a.want(t, "a turn in four seconds and more", http.StatusTooManyRequests, "wait-your-turn")
		require.Equal(t, "position and seconds", [2]int64{a.Position, a.Seconds}, [2]int64{user - 1, user - 1})
	}
	told := func(what string, at int, path rushPath, position, seconds int64, retryAfter string) {
		t.Helper()
		req := httptest.NewRequest(http.MethodPost, path.RushURL, nil)
		req.Header.Set("Accept-Language", "zh-CN")
		a := l.at[at].do(req)
		a.want(t, what, http.StatusTooManyRequests, "wait-your-turn", retryAfter)
		require.Equal(t, what, [2]int64{a.Position, a.Seconds}, [2]int64{position, seconds})
		require.Equal(t, what, a.Title, "您正在排队，位置已为您保留")
	}
	told("the same path elsewhere", 1, paths[8], 7, 7, "5")
	told("a new path", 1, l.at[1].issue(8, l.it, 1), 7, 7, "5")
	told("a later shopper", 1, l.at[1].issue(11, l.it, 1), 10, 10, "5")
	for range 3 {
		l.later(time.Second)
	}
	for _, a := range soon[1:] {
		require.Equal(t, "the answer to a held attempt", a.wait(t).outcome, outQueued)
	}
	l.passes("those who waited", 4)
	told("three seconds later", 0, paths[8], 4, 4, "3")
	// Its turn comes while it is away; it is answered at once, and so is its repetition elsewhere.
	for range 4 {
		l.later(time.Second)
	}
	for at := range 2 {
		l.at[at].send(paths[8].Path).accepted(t, "when its turn has come", paths[8], "queued")
	}
}

// A decision against an attempt uses its turn up: the shopper who tries again is last.
func TestRefusedAttemptUsesItsTurnUp(t *testing.T) {
	t.Parallel()
	l := setup(t).line(1, 1, 1, func(it *catalogue.Item) { it.UserLimit = 2 })
	i := l.at[0]
	both := i.issue(1, l.it, 2)
	i.send(both.Path).want(t, "two of one unit", http.StatusConflict, "not-enough")
	l.enters(0, 2, 2)
	l.rate(new(int32(0)))
	i.buys("another shopper", 3, l.it, http.StatusTooManyRequests, "wait-your-turn")
	a := i.send(both.Path)
	a.want(t, "two of one unit again", http.StatusTooManyRequests, "wait-your-turn", "5")
	require.Equal(t, "position and seconds", [2]int64{a.Position, a.Seconds}, [2]int64{3, 0})
}

// A shopper who cannot win is refused at once, at any place in line.
func TestHopelessTailIsTooHot(t *testing.T) {
	t.Parallel()
	l := setup(t).line(2, 2, 0)
	var paths []rushPath
	for user := range int64(6) { // three places for each unit
		path, a := l.at[user%2].buy(user+1, l.it)
		a.want(t, "within the places", http.StatusTooManyRequests, "wait-your-turn")
		paths = append(paths, path)
	}
	l.at[1].buys("the seventh of two units", 7, l.it, http.StatusTooManyRequests, "too-hot", "1")
	l.lane(0).learn(&inventory.Decision{Epoch: 1, Remaining: 1}, false, time.Now()) // one was sold elsewhere
	l.at[0].send(paths[2].Path).want(t, "the third for one unit", http.StatusTooManyRequests, "wait-your-turn")
	l.at[0].send(paths[3].Path).want(t, "the fourth for one unit", http.StatusTooManyRequests, "too-hot", "1")
}

// The line is that of all shards, and so are its places.
func TestHopelessTailOfShards(t *testing.T) {
	t.Parallel()
	l := setup(t, sharded).line(1, 400, 0)
	first := l.lane(0)
	first.shards.see(1, 4)
	for _, lane := range first.shards.grow(first, 4) {
		lane.learn(&inventory.Decision{Epoch: 1, Remaining: 2, Shards: 4}, false, time.Now())
	}
	for user := range int64(24) { // three places for each unit
		l.at[0].buys("within the places of eight units", user+1, l.it, http.StatusTooManyRequests, "wait-your-turn")
	}
	l.at[0].buys("behind them", 25, l.it, http.StatusTooManyRequests, "too-hot", "1")
}

// A turn that comes when the sale has closed is hopeless too.
func TestTurnAfterTheClosingIsHopeless(t *testing.T) {
	t.Parallel()
	l := setup(t).line(1, 1000, 1, func(it *catalogue.Item) { it.ClosesAt = time.Now().Add(time.Minute) })
	var ask []*attempt
	for user := range int64(70) {
		ask = append(ask, waiter(t.Context(), user+1))
	}
	_, _, err := l.lane(0).pace.turns.count(t.Context(), 1, 1000, nil, ask)
	require.NoError(t, err)
	l.at[0].buys("a turn before the closing", 10, l.it, http.StatusTooManyRequests, "wait-your-turn")
	l.at[0].buys("a turn after it", 70, l.it, http.StatusTooManyRequests, "too-hot", "1")
	l.at[0].buys("a shopper who would come after them", 71, l.it, http.StatusTooManyRequests, "too-hot", "1")
}

// A turn after the end of a path's life is hopeless too.
func TestLineIsNoLongerThanAPath(t *testing.T) {
	t.Parallel()
	l := setup(t).line(1, 1000, 1)
	for user := range int64(121) {
		l.at[0].issue(user+1, l.it, 1)
	}
	ask := make([]*attempt, 0, 122)
	for user := range int64(122) {
		ask = append(ask, waiter(t.Context(), user+1))
	}
	_, _, err := l.lane(0).pace.turns.count(t.Context(), 1, 120, nil, ask)
	require.NoError(t, err)
	require.Equal(t, "the turns of the last two", [2]int64{ask[120].turn, ask[121].turn}, [2]int64{121, 0})
	l.at[0].buys("a turn in two minutes", 200, l.it, http.StatusTooManyRequests, "too-hot", "1")
}

// When the item sells out, everyone in line is answered at once, whatever their turn.
func TestSellOutAnswersTheLineFromMemory(t *testing.T) {
	t.Parallel()
	l := setup(t).line(1, 1, 1)
	l.lane(0).line.cfg.MinPlaces = 64
	l.at[0].buys("the only unit", 1, l.it, http.StatusAccepted, "")
	g := l.at[0].gate()
	g.open()
	all := l.enters(0, 2, 4)
	l.later(time.Second)
	for _, a := range all {
		require.Equal(t, "the answer", a.wait(t).outcome, outAllHeld)
	}
	require.Equal(t, "attempts that Redis decided", g.total.Load(), 1)
}

// Operators change the rate while shoppers wait.
func TestNewRateCountsForThoseWhoWait(t *testing.T) {
	t.Parallel()
	l := setup(t).line(2, 1000, 1)
	l.enters(0, 1, 2)
	pgtest.Eventually(t, 30*time.Second, func() bool { return l.lane(0).pace.ahead.Load() == 1 }, "the second's turn is known")
	waits := l.enters(1, 3, 4)
	l.rate(new(int32(10)))
	l.settles()
	l.later(100 * time.Millisecond)
	l.passes("a tenth of a second at ten a second", 2)

	// A rate of 0 lets none in; the answer says so at once, with the place.
	l.rate(new(int32(0)))
	told := waits[0].wait(t)
	if told != (verdict{outcome: outWaitTurn, position: 1}) {
		t.Errorf("the answer at none: %+v", told)
	}
	l.settles()
	l.later(time.Second)
	a := l.at[0].buys("a shopper at none", 5, l.it, http.StatusTooManyRequests, "wait-your-turn", "5")
	require.Equal(t, "position and seconds", [2]int64{a.Position, a.Seconds}, [2]int64{3, 0})

	// A pause says so, and does not let turns come.
	l.changes(func(it *catalogue.Item) { it.Paused, it.Admission = true, new(int32(1000)) })
	l.at[0].buys("a shopper in the pause", 6, l.it, http.StatusServiceUnavailable, "paused", "2")
	l.changes(func(it *catalogue.Item) { it.Paused, it.Admission = false, new(int32(1)) })
	a = l.at[1].buys("a shopper after the pause", 7, l.it, http.StatusTooManyRequests, "wait-your-turn")
	require.Equal(t, "position", a.Position, 5)

	// Without a rate everyone goes in, and the line is forgotten.
	waiting := waiter(t.Context(), 3)
	waiting.admission = l.it.Admission
	mustEnter(t, l.lane(0), waiting)
	l.at[0].buys("a shopper behind, by whose answer the other has a turn", 9, l.it, http.StatusTooManyRequests, "wait-your-turn")
	l.rate(nil)
	require.Equal(t, "the answer to one who waited", waiting.wait(t).outcome, outQueued)
	l.at[1].buys("a shopper without a rate", 8, l.it, http.StatusAccepted, "")
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return l.Redis.Exists(t.Context(), l.lane(0).pace.turns.keys...).Val() == 0
	}, "the line is forgotten")
}

func TestStopAnswersTheLine(t *testing.T) {
	t.Parallel()
	l := setup(t).line(1, 1000, 1)
	all := l.enters(0, 1, 4)
	l.passes("the first", 1)
	lane := l.lane(0)
	l.at[0].rush.lanes.drain()
	for _, a := range all[1:] {
		require.Equal(t, "the answer to a held attempt", a.wait(t).outcome, outDraining)
	}
	late := waiter(t.Context(), 9)
	late.admission = l.it.Admission
	lane.lets(t, "after the stop", late, time.Now(), outDraining)
}

// Without Redis nothing is decided, and places are not lost.
func TestLineWithoutRedis(t *testing.T) {
	t.Parallel()
	l := setup(t).line(2, 1000, 0)
	path, a := l.at[0].buy(1, l.it)
	a.want(t, "at none", http.StatusTooManyRequests, "wait-your-turn")
	turns := &l.lane(1).pace.turns
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer func() { require.NoError(t, away.Close()) }()
	turns.redis = away
	l.at[1].send(path.Path).want(t, "without Redis", http.StatusServiceUnavailable, "unavailable", "2")
	require.Equal(t, "position", l.at[0].send(path.Path).Position, 1)
	// A line that Redis has lost begins anew.
	require.NoError(t, l.Redis.FlushDB(t.Context()).Err())
	require.Equal(t, "position in the new line", l.at[0].send(path.Path).Position, 1)
}

// Turns are kept while their users ask, and for a minute after; what came in an outage
// is not made up for, and a clock that is set back is not waited for.
func TestTurnsAreForgotten(t *testing.T) {
	t.Parallel()
	l := setup(t).line(1, 1000, 1)
	turns := l.lane(0).pace.turns
	asks := func(users ...int64) (got []int64) {
		var all []*attempt
		for _, user := range users {
			all = append(all, waiter(t.Context(), user))
		}
		_, _, err := turns.count(t.Context(), 1, 1000, nil, all)
		require.NoError(t, err)
		for _, a := range all {
			got = append(got, a.turn)
		}
		return got
	}
	require.Equal(t, "the first turns", asks(7, 8, 7), []int64{1, 2, 1})
	for range 3 {
		l.later(59 * time.Second)
		require.Equal(t, "a user who asks", asks(7), []int64{1})
	}
	l.later(59 * time.Second)
	require.Equal(t, "a user who did not ask, and one who did", asks(8, 7), []int64{3, 1})
	asks(20, 21, 22, 23, 24, 25)
	reached := l.later(0)
	require.Equal(t, "turns of an hour's outage", l.later(time.Hour)-reached, 2)
	reached += 2
	require.Equal(t, "turns when the clock is set back", l.later(-time.Hour), reached)
	require.Equal(t, "turns after the clock was set back", l.later(time.Second)-reached, 1)
}
