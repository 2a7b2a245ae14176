package httpx

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func bounded(b Bounds) *gate {
	g := newGate(prometheus.NewRegistry())
	g.bounds = b
	return g
}

// entering sends a request of a class to the gate and tells whether it got in.
func entering(g *gate, c class, route string) <-chan bool {
	in := make(chan bool, 1)
	go func() { in <- g.enter(context.Background(), c, route) }()
	return in
}

func mustEnter(t *testing.T, g *gate, c class, route string) {
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
			mustEnter(t, g, sheddable, "GET browse")
		}
		began := time.Now()
		if g.enter(t.Context(), sheddable, "GET browse") || time.Since(began) != 0 {
			t.Error("browsing took or waited for more than half of the places")
		}
		for range 3 {
			mustEnter(t, g, normal, "POST path")
		}
		if g.enter(t.Context(), normal, "POST path") || time.Since(began) != longestWait {
			t.Errorf("refused after %s, want after %s", time.Since(began), longestWait)
		}
		for range 2 {
			mustEnter(t, g, critical, "POST notify")
		}
		if g.enter(t.Context(), critical, "POST notify") {
			t.Error("an eleventh got in")
		}
	})
}

func TestAFreePlaceGoesToWhatIsCritical(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bounded(Bounds{InFlight: 1})
		mustEnter(t, g, critical, "a")
		path, first, second := entering(g, normal, "b"), (<-chan bool)(nil), (<-chan bool)(nil)
		synctest.Wait()
		first = entering(g, critical, "c")
		synctest.Wait()
		second = entering(g, critical, "d")
		synctest.Wait()
		for _, next := range []struct {
			in    <-chan bool
			c     class
			route string
			left  string
		}{{first, critical, "c", "a"}, {second, critical, "d", "c"}, {path, normal, "b", "d"}} {
			g.leave(critical, next.left)
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
		mustEnter(t, g, normal, "hangs")
		mustEnter(t, g, normal, "hangs")
		waits := entering(g, normal, "hangs")
		synctest.Wait()
		for range 100 {
			mustEnter(t, g, normal, "works")
			g.leave(normal, "works")
		}
		if <-waits {
			t.Error("a third of the route that hangs got in")
		}
		if n := len(g.lines[normal]); n != 0 {
			t.Errorf("%d are still in line", n)
		}
	})
}

func TestWhoLeavesTheLineTakesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bounded(Bounds{InFlight: 1})
		mustEnter(t, g, critical, "a")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan bool, 1)
		go func() { gone <- g.enter(ctx, critical, "b") }()
		synctest.Wait()
		cancel()
		if <-gone {
			t.Error("a client that went away got a place")
		}
		g.leave(critical, "a")
		mustEnter(t, g, critical, "c")
	})
}

func TestTheLineIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bounded(Bounds{InFlight: 1})
		mustEnter(t, g, critical, "a")
		line := make([]<-chan bool, maxWaiting)
		for i := range line {
			line[i] = entering(g, critical, "b")
		}
		synctest.Wait()
		began := time.Now()
		if g.enter(t.Context(), critical, "b") || time.Since(began) != 0 {
			t.Error("the line took more than its bound")
		}
		for _, in := range line {
			if <-in {
				t.Error("a place for two")
			}
		}
	})
}

// Twice as many come as are served, for long. Whoever is let in has not waited in a
// line that stands, as many are let in, and a burst may wait as ever.
func TestAStandingLineIsShort(t *testing.T) {
	t.Parallel()
	const places, work, flood = 8, 10 * time.Millisecond, 10 * time.Second
	served := map[bool]int{}
	for _, fixed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := bounded(Bounds{InFlight: 10, FixedWait: fixed})
			var mu sync.Mutex
			longest := map[bool]time.Duration{} // by whether the line stood already
			var all sync.WaitGroup
			began := time.Now()
			for ; time.Since(began) < flood; <-time.After(work / (2 * places)) {
				came := time.Now()
				all.Go(func() {
					in := g.enter(context.Background(), normal, "POST path")
					mu.Lock()
					stands := came.Sub(began) > 3*longestWait
					longest[stands] = max(longest[stands], time.Since(came))
					mu.Unlock()
					if in {
						<-time.After(work)
						g.leave(normal, "POST path")
						mu.Lock()
						served[fixed]++
						mu.Unlock()
					}
				})
			}
			all.Wait()
			want := standingWait
			if fixed {
				want = longestWait
			}
			if longest[false] != longestWait || longest[true] != want {
				t.Errorf("fixed %v: waited up to %s in a burst and %s in a line that stood, want %s and %s", fixed, longest[false], longest[true], longestWait, want)
			}
		})
	}
	// Those in line when the flood ends are served as well, up to a second's work.
	if most := int(longestWait/work) * places; served[false] < served[true]-most {
		t.Errorf("%d were served, and %d by a fixed wait", served[false], served[true])
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	for route, want := range map[[2]string]class{
		{"POST", "/api/v1/payments/{provider}/notify"}:      critical,
		{"GET", "/api/v1/orders/{no}"}:                      critical,
		{"POST", "/api/v1/orders/{no}/payments"}:            critical,
		{"GET", "/api/v1/orders"}:                           critical,
		{"POST", "/api/v1/items/{id}/rush-path"}:            normal,
		{"GET", "/api/v1/items/{id}/reservation"}:           normal,
		{"GET", "/api/v1/items/{id}/challenge"}:             normal,
		{"GET", "/api/v1/time"}:                             normal,
		{"POST", "/api/v1/auth/login"}:                      normal,
		{"POST", "/api/v1/admin/activities/{id}/terminate"}: normal,
		{"GET", "/api/v1/admin/orders"}:                     sheddable,
		{"GET", "/api/v1/sessions"}:                         sheddable,
		{"GET", "/api/v1/sessions/{id}"}:                    sheddable,
		{"HEAD", "/api/v1/items/{id}"}:                      sheddable,
		{"GET", "/"}:                                        sheddable,
		{"GET", "/docs/ui/*"}:                               sheddable,
		{"GET", "/api/v1/ws"}:                               held,
		{"GET", "/api/v1/auth/qr/{id}"}:                     held,
		{"GET", "/api/v1/auth/qr/{id}/image.png"}:           normal,
		{"GET", "/demo/live"}:                               held,
	} {
		if got := classOf(route[0], route[1]); got != want {
			t.Errorf("%v is %d, want %d", route, got, want)
		}
	}
}
