package httpx

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/workshop/require"
)

func bounded(b Bounds) *gate {
	g := newGate(prometheus.NewRegistry(), nil)
	g.bounds = b
	return g
}

// entering sends a request of a class to the gate and reports whether it got in.
func entering(g *gate, c Class, route string) <-chan bool {
	in := make(chan bool, 1)
	go func() { in <- g.enter(context.Background(), c, route) }()
	return in
}

func mustEnter(t *testing.T, g *gate, c Class, route string) {
	t.Helper()
	if !g.enter(t.Context(), c, route) {
		t.Fatalf("%s was refused", c)
	}
}

func TestEachClassHasItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bounded(Bounds{InFlight: 10})
		for range 5 {
			mustEnter(t, g, Sheddable, "GET browse")
		}
		began := time.Now()
		if g.enter(t.Context(), Sheddable, "GET browse") || time.Since(began) != 0 {
			t.Error("browsing took or waited for more than half of the places")
		}
		for range 3 {
			mustEnter(t, g, Normal, "POST path")
		}
		if g.enter(t.Context(), Normal, "POST path") || time.Since(began) != longestWait {
			t.Errorf("refused after %s, want after %s", time.Since(began), longestWait)
		}
		for range 2 {
			mustEnter(t, g, Critical, "POST notify")
		}
		require.Equal(t, "an eleventh request is admitted", g.enter(t.Context(), Critical, "POST notify"), false)
	})
}

func TestAFreePlaceGoesToWhatIsCritical(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bounded(Bounds{InFlight: 1})
		mustEnter(t, g, Critical, "a")
		path, first, second := entering(g, Normal, "b"), (<-chan bool)(nil), (<-chan bool)(nil)
		synctest.Wait()
		first = entering(g, Critical, "c")
		synctest.Wait()
		second = entering(g, Critical, "d")
		synctest.Wait()
		for _, next := range []struct {
			in    <-chan bool
			c     Class
			route string
			left  string
		}{{first, Critical, "c", "a"}, {second, Critical, "d", "c"}, {path, Normal, "b", "d"}} {
			g.leave(Critical, next.left)
			synctest.Wait()
			select {
			case in := <-next.in:
				if !in {
					t.Fatalf("%s was refused", next.route)
				}
			default:
				t.Fatalf("%s did not get the free place", next.route)
			}
		}
	})
}

func TestARouteThatHangsLeavesTheOthersTheirPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bounded(Bounds{OfRoute: 2})
		mustEnter(t, g, Normal, "hangs")
		mustEnter(t, g, Normal, "hangs")
		waits := entering(g, Normal, "hangs")
		synctest.Wait()
		for range 100 {
			mustEnter(t, g, Normal, "works")
			g.leave(Normal, "works")
		}
		require.Equal(t, "a third request of the hanging route is admitted", <-waits, false)
		require.Equal(t, "requests that are still queued", len(g.lines[Normal]), 0)
	})
}

func TestWhoLeavesTheLineTakesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bounded(Bounds{InFlight: 1})
		mustEnter(t, g, Critical, "a")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan bool, 1)
		go func() { gone <- g.enter(ctx, Critical, "b") }()
		synctest.Wait()
		cancel()
		require.Equal(t, "a client that left gets a place", <-gone, false)
		g.leave(Critical, "a")
		mustEnter(t, g, Critical, "c")
	})
}

func TestTheLineIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bounded(Bounds{InFlight: 1})
		mustEnter(t, g, Critical, "a")
		line := make([]<-chan bool, maxWaiting)
		for i := range line {
			line[i] = entering(g, Critical, "b")
		}
		synctest.Wait()
		began := time.Now()
		if g.enter(t.Context(), Critical, "b") || time.Since(began) != 0 {
			t.Error("the queue exceeded its bound")
		}
		for _, in := range line {
			require.Equal(t, "a second request gets the one place", <-in, false)
		}
	})
}

// Requests arrive at twice the service rate for a long time. Admitted requests have
// not waited in a standing queue, no place stays free, and a burst may still wait.
func TestAStandingLineIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const places, work, flood = 8, 10 * time.Millisecond, 10 * time.Second
		g := bounded(Bounds{InFlight: 10})
		var mu sync.Mutex
		longest, served := map[bool]time.Duration{}, 0 // by whether the queue was standing
		var all sync.WaitGroup
		began := time.Now()
		for ; time.Since(began) < flood; <-time.After(work / (2 * places)) {
			came := time.Now()
			all.Go(func() {
				in := g.enter(context.Background(), Normal, "POST path")
				mu.Lock()
				stands := came.Sub(began) > 3*longestWait
				longest[stands] = max(longest[stands], time.Since(came))
				mu.Unlock()
				if in {
					<-time.After(work)
					g.leave(Normal, "POST path")
					mu.Lock()
					served++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if longest[false] != longestWait || longest[true] != standingWait {
			t.Errorf("waited up to %s in a burst and %s in a standing queue", longest[false], longest[true])
		}
		if least := int(flood/work) * places; served < least {
			t.Errorf("%d were served, want %d", served, least)
		}
	})
}

func TestClasses(t *testing.T) {
	t.Parallel()
	op := func(method, tag string, c Class) declared {
		return declared{class: (&Op{Method: method, Tag: tag, Class: c}).class()}
	}
	known := routes{
		{"GET", "/api/v1/things"}: op("GET", "", ByRule), {"GET", "/api/v1/things/{id}"}: op("GET", "", Sheddable),
		{"GET", "/api/v1/admin/things"}: op("GET", operatorTag, ByRule), {"POST", "/api/v1/admin/things"}: op("POST", operatorTag, ByRule),
		{"GET", "/live"}: {class: Held}, {"GET", "/page"}: {class: Static},
	}
	for asked, want := range map[route]Class{
		{"GET", "/api/v1/things"}:        Normal,
		{"HEAD", "/api/v1/things/{id}"}:  Sheddable,
		{"GET", "/api/v1/admin/things"}:  Sheddable,
		{"POST", "/api/v1/admin/things"}: Normal,
		{"GET", "/api/v1/else"}:          Normal,
		{"GET", "/live"}:                 Held,
		{"HEAD", "/page"}:                Static,
		{"GET", "/"}:                     Sheddable,
		{"POST", "/"}:                    Normal,
	} {
		require.Equal(t, asked.method+" "+asked.pattern, known.of(asked.method, asked.pattern).class, want)
	}
}

func TestOperatorsHavePlacesOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bounded(Bounds{InFlight: 1})
		mustEnter(t, g, Critical, "POST notify")
		began := time.Now()
		var leaves []func()
		for range operatorPlaces {
			leave, ok := g.place(t.Context(), Sheddable, "GET admin", true)
			if !ok || time.Since(began) != 0 {
				t.Fatal("an operator was refused or waited")
			}
			leaves = append(leaves, leave)
		}
		if _, ok := g.place(t.Context(), Sheddable, "GET admin", true); ok {
			t.Error("operators exceeded their places")
		}
		leaves[0]()
		if _, ok := g.place(t.Context(), Sheddable, "GET admin", true); !ok {
			t.Error("a free place was not given to an operator")
		}
	})
}
