package httpx

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/fault"
)

// Bounds are how many requests are worked on at once; 0 is no limit.
type Bounds struct {
	// InFlight is for all routes together. A class of requests is let in while
	// fewer are in flight than its share of it: browsing and reading admins half,
	// most others 8 tenths, orders and callbacks all. So what can wait gives way
	// to what cannot, and while there is room for all nobody notices.
	InFlight int
	// OfRoute is for each route alone, so that one that hangs does not take the
	// places of the others.
	OfRoute int
	// FixedWait lets a request wait for its place equally long at all times.
	// Otherwise it waits only briefly while a line stands, see standingWait.
	FixedWait bool
}

// tenths is each class's share of Bounds.InFlight.
var tenths = [Held]int{Critical: 10, Normal: 8, Sheddable: 5}

const (
	// longestWait is how long a request waits for a place before it is refused. A
	// provider repeats a callback after some seconds anyway, and a shopper looks
	// at a blank page.
	longestWait = time.Second
	// standingWait is how long it waits in a line that has not been empty for
	// longestWait. A line absorbs a burst; one that stands only makes everybody
	// late, whom it lets in as well as whom it refuses, and lets in no more of them.
	// What is critical waits longestWait at all times: a refused callback comes back.
	standingWait = 100 * time.Millisecond
	// maxWaiting bounds the line of a class. More would not get in within
	// longestWait.
	maxWaiting = 1024
)

// gate lets requests in within Bounds. What finds no place waits in the line of its
// class, but for what is sheddable, which is refused at once: it is what an overload
// is made of. A place that becomes free goes to the first in line who fits, critical
// ones before all others.
type gate struct {
	bounds  Bounds  // fixed before serving
	classes classes // as bounds

	mu       sync.Mutex
	inFlight [Held]int
	ofRoute  map[string]int // by pattern; as many as there are routes
	lines    [Sheddable][]*waiter
	since    [Sheddable]time.Time // of a line that is not empty: when it began

	shed *prometheus.CounterVec
}

// waiter is a request in line. in closes when it got its place; whoever takes it
// out of its line decides whether it did.
type waiter struct {
	route string
	in    chan struct{}
}

func newGate(metrics prometheus.Registerer, known classes) *gate {
	auto := promauto.With(metrics)
	g := &gate{classes: known, ofRoute: map[string]int{}, shed: auto.NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_http_shed_total",
		Help: "Requests refused because too many were in flight, by class: critical (callbacks and orders), normal, sheddable (browsing and reading admins).",
	}, []string{"class"})}
	for c := Critical; c < Held; c++ {
		g.shed.WithLabelValues(c.String()) // from the first scrape on, so that the first rate is right
		auto.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "stampede_http_in_flight", Help: "Requests being worked on, by class.", ConstLabels: prometheus.Labels{"class": c.String()},
		}, func() float64 {
			g.mu.Lock()
			defer g.mu.Unlock()
			return float64(g.inFlight[c])
		})
	}
	return g
}

var errOverloaded = fault.New(fault.Unavailable, "overloaded", fault.Titles{"Too many shoppers at once; try again in a moment", "太火爆了，请稍后再试"}, "Too much is asked of this server at the moment; come again when Retry-After says.")

// comeBack spreads those who were refused, so that they do not come back together.
func comeBack() time.Duration { return time.Second + rand.N(2*time.Second) } //nolint:gosec // nobody gains from guessing it

// admit is the middleware.
func (g *gate) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.bounds == (Bounds{}) {
			next.ServeHTTP(w, r)
			return
		}
		route := chi.RouteContext(r.Context()).RoutePattern()
		c := g.classes.of(r.Method, route)
		if c == Held {
			next.ServeHTTP(w, r)
			return
		}
		if c == Critical {
			bodyFirst(r)
		}
		if !g.enter(r.Context(), c, route) {
			g.shed.WithLabelValues(c.String()).Inc()
			WriteProblem(w, r, errOverloaded.After(comeBack()))
			return
		}
		defer g.leave(c, route)
		next.ServeHTTP(w, r)
	})
}

// bodyFirst reads what a route takes at most of a body into memory before the
// request gets a place: some hundred connections that send slowly would otherwise
// hold the places that callbacks need. What is longer, or failed, is left for the
// handler to find.
func bodyFirst(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	start, err := io.ReadAll(io.LimitReader(r.Body, defaultMaxBody+1))
	rest := io.Reader(r.Body)
	if err != nil {
		rest = failing{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), rest), r.Body}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// fits reports whether there is a place for a request. g.mu is held.
func (g *gate) fits(c Class, route string) bool {
	if g.bounds.OfRoute > 0 && g.ofRoute[route] >= g.bounds.OfRoute {
		return false
	}
	all := 0
	for _, n := range g.inFlight {
		all += n
	}
	return g.bounds.InFlight == 0 || all < max(1, g.bounds.InFlight*tenths[c]/10)
}

// seat gives a request its place. g.mu is held.
func (g *gate) seat(c Class, route string) {
	g.inFlight[c]++
	g.ofRoute[route]++
}

// patience is how long the next in line waits. g.mu is held.
func (g *gate) patience(c Class) time.Duration {
	switch {
	case len(g.lines[c]) == 0:
		g.since[c] = time.Now()
	case c != Critical && !g.bounds.FixedWait && time.Since(g.since[c]) > longestWait:
		return standingWait
	}
	return longestWait
}

// enter reports whether a request got a place while it had patience, or before
// ctx ended.
func (g *gate) enter(ctx context.Context, c Class, route string) bool {
	g.mu.Lock()
	if g.fits(c, route) {
		g.seat(c, route)
		g.mu.Unlock()
		return true
	}
	if c == Sheddable || len(g.lines[c]) >= maxWaiting {
		g.mu.Unlock()
		return false
	}
	me, wait := &waiter{route, make(chan struct{})}, g.patience(c)
	g.lines[c] = append(g.lines[c], me)
	g.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-me.in:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.lines[c], me)
	if i < 0 {
		return true // the place came at the last moment
	}
	g.lines[c] = slices.Delete(g.lines[c], i, i+1)
	return false
}

// leave frees a request's place and seats the first in line who fits. One place
// is free, so one at most gets in.
func (g *gate) leave(c Class, route string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight[c]--
	g.ofRoute[route]--
	for waiting := Critical; waiting < Sheddable; waiting++ {
		line := g.lines[waiting]
		for i, next := range line {
			if g.fits(waiting, next.route) {
				g.lines[waiting] = slices.Delete(line, i, i+1)
				g.seat(waiting, next.route)
				close(next.in)
				return
			}
		}
	}
}
