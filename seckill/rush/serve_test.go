package rush

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

func TestSoldOutWhenAllIsPaid(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it})
	p, a := i.buy(1, it)
	a.want(t, "", http.StatusAccepted, "")
	y.SettleAll(1)
	y.Pay(parse(t, p.OrderNo))
	for range 2 { // by Redis, then by the flag
		req := httptest.NewRequest(http.MethodPost, i.issue(2, it, 1).RushURL, nil)
		req.Header.Set("Accept-Language", "zh-CN,zh;q=0.9")
		a := i.do(req)
		a.want(t, "of the last unit", http.StatusGone, "sold-out")
		require.Equal(t, "the title", a.Title, "已售罄")
		mustBeUp(t, i, it, outSoldOut)
	}
}

// A fenced item requests a Load, and sells again once it is loaded.
func TestFencedItemIsHealed(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(5)
	i := y.instance([]*catalogue.Item{it})
	held, a := i.buy(1, it)
	a.want(t, "", http.StatusAccepted, "")
	y.SettleAll(1)
	require.NoError(t, y.Redis.FlushDB(t.Context()).Err())
	p := i.issue(2, it, 1)
	i.send(p.Path).want(t, "without its keys", http.StatusServiceUnavailable, "fenced", "1")
	select {
	case id := <-i.listing.Fenced():
		require.NoError(t, y.Stock.Load(t.Context(), id))
	case <-time.After(30 * time.Second): // the lane requests the check just after it has answered
		t.Fatal("no Load of the item was requested")
	}
	i.send(p.Path).want(t, "after the Load", http.StatusAccepted, "")
	i.send(held.Path).accepted(t, "the earlier buyer", held, "")
	require.Equal(t, "units left", i.state(it).Remaining, 3)
}

func repeats(t testing.TB, perSecond int) *ratelimit.Repeats {
	t.Helper()
	r, err := ratelimit.NewRepeats(perSecond)
	require.NoError(t, err)
	return r
}

// A path that is sent repeatedly gets its one answer until its user is over the
// limit; then it is refused before Redis, only for that user, and only briefly.
func TestAHammeredPathIsRefusedFromMemory(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	i.rush.repeats = repeats(t, 10)
	p := i.issue(1, it, 1)
	for range 10 {
		i.send(p.Path).accepted(t, "within the limit", p, "")
	}
	// The ten may have taken long enough to allow one more; not a hundred more.
	refused := answer{Status: http.StatusAccepted}
	for n := 0; n < 100 && refused.Status == http.StatusAccepted; n++ {
		refused = i.send(p.Path)
	}
	refused.want(t, "above the limit", http.StatusTooManyRequests, "rate-limited", "1")
	require.Equal(t, "refusals in the funnel", i.answers(it.ID)["rate-limited"], 1)
	i.buys("another user", 2, it, http.StatusAccepted, "")
	i.clock.Advance(time.Second)
	i.send(p.Path).accepted(t, "a second later", p, "")
}

// While the flag is up users are not counted: refusing costs less than
// counting.
func TestTheFlagAnswersBeforeTheLimit(t *testing.T) {
	t.Parallel()
	i, req := soldOutShop(t)
	i.rush.repeats = repeats(t, 1)
	for range 10 {
		w := httptest.NewRecorder()
		i.rt.ServeHTTP(w, req)
		require.Equal(t, "status", w.Code, http.StatusConflict)
	}
}

func TestHundredParallelRushesOfOneUserGiveOneGrant(t *testing.T) {
	t.Parallel()
	const parallel = 100
	for name, paths := range map[string]func(*instance, *catalogue.Item) []rushPath{
		"one path": func(i *instance, it *catalogue.Item) []rushPath {
			all := make([]rushPath, parallel)
			p := i.issue(7, it, 1)
			for k := range all {
				all[k] = p
			}
			return all
		},
		"different paths": func(i *instance, it *catalogue.Item) []rushPath {
			all := make([]rushPath, parallel)
			for k := range all {
				all[k] = i.issue(7, it, 1)
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			it := y.Item(1000)
			i := y.instance([]*catalogue.Item{it})
			all := paths(i, it)
			answers := make([]answer, parallel)
			var wg sync.WaitGroup
			for k, p := range all {
				wg.Go(func() { answers[k] = i.send(p.Path) })
			}
			wg.Wait()
			granted := ""
			for k, a := range answers {
				if a.Status != http.StatusAccepted && a.Code != "already-bought" {
					t.Fatalf("answer %d: %d %s", k, a.Status, a.Code)
				}
				if granted == "" {
					granted = a.OrderNo
				}
				require.Equal(t, "the number", a.OrderNo, granted)
			}
			st := i.state(it)
			require.Equal(t, "grants and units left", [2]int64{st.Seq, st.Remaining}, [2]int64{1, 999})
			y.Write()
			pgtest.Eventually(t, 30*time.Second, func() bool { return y.Orders.Count() == 1 }, "one order")
		})
	}
}

// A lost 202 is requested again with the same path: before the sell-out, after
// it with the flag up, when the order exists, and when it has ended.
func TestLostAnswerIsGivenAgain(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(2)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.FlagLife = time.Minute })
	i.work()

	first, a := i.buy(1, it)
	if a.Status != http.StatusAccepted || a.OrderNo != first.OrderNo || a.State != "queued" || a.Position != 1 || a.PollAfter < 200 {
		t.Fatalf("first rush: %+v", a)
	}
	again := i.send(first.Path)
	again.accepted(t, "before the sell-out", first, "queued")
	require.Equal(t, "position before the sell-out", again.Position, 1)
	i.buys("second unit", 2, it, http.StatusAccepted, "")
	i.buys("third shopper", 3, it, http.StatusConflict, "all-held")
	mustBeUp(t, i, it, outAllHeld)
	i.send(first.Path).accepted(t, "after the sell-out", first, "queued")
	// A second click comes with its own path.
	click := i.buys("second click after the sell-out", 1, it, http.StatusConflict, "already-bought")
	require.Equal(t, "the number in already-bought", click.OrderNo, first.OrderNo)

	y.Write()
	pgtest.Eventually(t, 30*time.Second, func() bool { return i.state(it).Persisted == 2 }, "both orders written")
	again = i.send(first.Path)
	again.accepted(t, "with an order", first, orderevent.StatusPending)
	require.Equal(t, "position with an order", again.Position, 0)
	y.Close(parse(t, first.OrderNo))
	i.send(first.Path).accepted(t, "after its end", first, orderevent.StatusClosed)
	// The number is finished but the user is not: a new path buys again.
	i.buys("buying again", 1, it, http.StatusAccepted, "")
	require.Equal(t, "funnel", i.answers(it.ID), map[string]int64{"queued": 3, "repeated": 4, "all-held": 1, "already-bought": 1})
}

// mustBeUp waits for the flag, which rises after the answer that caused it.
func mustBeUp(t testing.TB, i *instance, it *catalogue.Item, want outcome) {
	t.Helper()
	const stranger = 1 << 40
	pgtest.Eventually(t, 30*time.Second, func() bool {
		l := i.rush.lanes.all.find(it.ID)
		if l == nil {
			return false
		}
		o, up := l.flag.refuses(stranger, ids.ID{})
		return up && o == want
	}, "the flag "+want.String())
}

func TestOneItemPerActivity(t *testing.T) {
	t.Parallel()
	y := setup(t)
	together := func(it *catalogue.Item) { it.PerActivity = true }
	one, other := y.Item(5, together), y.Item(5, together)
	i := y.instance([]*catalogue.Item{one, other})
	first, a := i.buy(1, one)
	a.want(t, "first item", http.StatusAccepted, "")
	again := i.buys("second item of the activity", 1, other, http.StatusConflict, "already-bought")
	require.Equal(t, "the number in already-bought", again.OrderNo, first.OrderNo)
}
