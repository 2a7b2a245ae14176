package rush

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/seckill/catalogue"
)

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
				if a.OrderNo != granted {
					t.Fatalf("two numbers: %s and %s", granted, a.OrderNo)
				}
			}
			if st := i.state(it); st.Seq != 1 || st.Remaining != 999 {
				t.Fatalf("%d grants, %d left", st.Seq, st.Remaining)
			}
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
	if again := i.send(first.Path); again.Status != http.StatusAccepted || again.OrderNo != first.OrderNo || again.State != "queued" || again.Position != 1 {
		t.Fatalf("before the sell-out: %+v", again)
	}
	if _, a = i.buy(2, it); a.Status != http.StatusAccepted {
		t.Fatalf("second unit: %+v", a)
	}
	if _, a = i.buy(3, it); a.Code != "all-held" || a.Status != http.StatusConflict {
		t.Fatalf("third shopper: %+v", a)
	}
	mustBeUp(t, i, it, outAllHeld)
	if again := i.send(first.Path); again.Status != http.StatusAccepted || again.OrderNo != first.OrderNo || again.State != "queued" {
		t.Fatalf("after the sell-out: %+v", again)
	}
	// A second click comes with its own path.
	if _, again := i.buy(1, it); again.Code != "already-bought" || again.OrderNo != first.OrderNo || again.Status != http.StatusConflict {
		t.Fatalf("second click after the sell-out: %+v", again)
	}

	y.Write()
	pgtest.Eventually(t, 30*time.Second, func() bool { return i.state(it).Persisted == 2 }, "both orders written")
	if again := i.send(first.Path); again.Status != http.StatusAccepted || again.State != orderevent.StatusPending || again.Position != 0 {
		t.Fatalf("with an order: %+v", again)
	}
	y.Close(parse(t, first.OrderNo))
	if again := i.send(first.Path); again.Status != http.StatusAccepted || again.OrderNo != first.OrderNo || again.State != orderevent.StatusClosed {
		t.Fatalf("after its end: %+v", again)
	}
	// The number is finished but the user is not: a new path buys again.
	if _, a := i.buy(1, it); a.Status != http.StatusAccepted {
		t.Fatalf("buying again: %+v", a)
	}
	f := i.answers(it.ID)
	if f["queued"] != 3 || f["repeated"] != 4 || f["all-held"] != 1 || f["already-bought"] != 1 {
		t.Fatalf("funnel: %v", f)
	}
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
	if _, a := i.buy(1, other); a.Code != "already-bought" || a.OrderNo != first.OrderNo {
		t.Fatalf("second item of the activity: %+v", a)
	}
}
