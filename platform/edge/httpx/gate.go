package httpx

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
)

// Bounds limit the concurrent requests; 0 is no limit.
type Bounds struct {
	// InFlight bounds all routes together. A class of requests is admitted while
	// fewer requests are in flight than its share: browsing and operators' reads get
	// half, most others 8 tenths, orders and callbacks all. Under overload, requests
	// that can wait thus give way to those that cannot.
	InFlight int
	// OfRoute bounds each route separately, so that a hanging route does not take
	// the places of the others.
	OfRoute int
}

// operatorPlaces are places in addition to Bounds, which only operators get: a sale
// that shoppers overload can still be paused. A shop has some ten operators.
const operatorPlaces = 64

// tenths is each class's share of Bounds.InFlight.
var tenths = [Held]int{Critical: 10, Normal: 8, Sheddable: 5}

const (
	// longestWait is how long a request waits for a place before it is refused. A
	// payment provider repeats a callback after some seconds anyway, and a shopper
	// looks at a blank page.
	longestWait = time.Second
	// standingWait is how long a request waits in a queue that has not been empty
	// for longestWait. A queue absorbs a burst; a standing queue only delays every
	// request, admitted or refused, without admitting more. A critical request
	// always waits longestWait: a refused callback is repeated.
	standingWait = 100 * time.Millisecond
	// maxWaiting bounds the queue of a class. A longer queue could not be admitted
	// within longestWait.
	maxWaiting = 1024
)

// gate admits requests within Bounds. A request without a place waits in the queue
// of its class, except a sheddable one, which is refused immediately: an overload
// consists mostly of these. A free place goes to the first request in a queue that
// fits, critical ones first.
type gate struct {
	bounds  Bounds // set before serving
	routes  routes // set before serving
	rater   rater
	bodies  bodies
	streams streams
	tokens  *auth.Tokens          // set before serving
	shared  func(netip.Addr) bool // addresses of many clients, without bounds of their own
	staff   ratelimit.Places      // of operatorPlaces

	mu       sync.Mutex
	inFlight [Held]int
	ofRoute  map[string]int // by pattern; bounded by the number of routes
	lines    [Sheddable][]*waiter
	since    [Sheddable]time.Time // when a non-empty queue formed

	shed *prometheus.CounterVec
}

// waiter is a queued request. in is closed when it gets its place; the goroutine
// that removes it from its queue decides whether it did.
type waiter struct {
	route string
	in    chan struct{}
}

func newGate(metrics prometheus.Registerer, known routes) *gate {
	auto := promauto.With(metrics)
	g := &gate{routes: known, shared: Proxies{}.shared, ofRoute: map[string]int{}, shed: auto.NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_http_shed_total",
		Help: "Requests refused because too many were in flight, by class: critical (callbacks and orders), normal, sheddable (browsing and operators' reads).",
	}, []string{"class"})}
	g.bodies.timeout = bodyTimeout
	for c := Critical; c < Held; c++ {
		g.shed.WithLabelValues(c.String()) // exported from the first scrape on, so that the first rate is right
		auto.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "stampede_http_in_flight", Help: "Requests in flight, by class.", ConstLabels: prometheus.Labels{"class": c.String()},
		}, func() float64 {
			g.mu.Lock()
			defer g.mu.Unlock()
			return float64(g.inFlight[c])
		})
	}
	return g
}

var errOverloaded = fault.New(fault.Unavailable, "overloaded",
	fault.T("Too many shoppers at once; try again in a moment", "太火爆了，请稍后再试"),
	fault.T("The server is overloaded; Retry-After says when to retry.", "服务器繁忙，请按 Retry-After 给出的秒数等待后重试。"),
	fault.T("Repeat the request after the seconds in Retry-After.", "请按 Retry-After 给出的秒数等待后重试。"))

// comeBack spreads the retries of refused clients over time.
func comeBack() time.Duration { return time.Second + rand.N(2*time.Second) } //nolint:gosec // guessing it gains nothing

type overRateKey struct{}

// OverRate is the refusal of a Relayed route's request that is over its rate, which the
// handler words; nil for others.
func OverRate(ctx context.Context) error {
	err, _ := ctx.Value(overRateKey{}).(error)
	return err
}

// admit is the middleware.
func (g *gate) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pattern := chi.RouteContext(r.Context()).RoutePattern()
		known := g.routes.of(r.Method, pattern)
		if known.class == Static {
			next.ServeHTTP(w, r)
			return
		}
		key := fromContext(r.Context()).key
		if key != nil && key.Has(known.scope) {
			r = r.WithContext(auth.Into(r.Context(), key.For(known.scope)))
		}
		shared := g.shared(ClientAddr(r.Context()))
		if err := g.rater.take(r.Context(), known.loadOf(r.Method), known.number, shared); err != nil {
			if known.class == Relayed {
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), overRateKey{}, err)))
				return
			}
			WriteProblem(w, r, err)
			return
		}
		allowed := known.role != "" && authorize(r.Context(), known.role, known.scope) == nil
		switch {
		case known.class == Events && (allowed || known.role == ""):
			g.stream(w, r, next, known.role == "", shared)
			return
		case known.class >= Held:
			next.ServeHTTP(w, r)
			return
		}
		operator := allowed && known.operator && key == nil // the places are for people, who may have to pause a sale
		if allowed || known.role == "" {                    // otherwise the handler refuses without the body
			if known.weigh != nil {
				if err := known.weigh(r.Context()); err != nil {
					WriteProblem(w, r, err)
					return
				}
			}
			if err := g.bodies.first(w, r, known.maxBody, shared, operator); err != nil {
				g.refuse(w, r, known.class, err)
				return
			}
		}
		if g.bounds == (Bounds{}) {
			next.ServeHTTP(w, r)
			return
		}
		leave, ok := g.place(r.Context(), known.class, pattern, operator)
		if !ok {
			g.refuse(w, r, known.class, errOverloaded.After(comeBack()))
			return
		}
		answer := &leaving{ResponseWriter: w, leave: leave}
		defer answer.gone()
		next.ServeHTTP(answer, r)
	})
}

// leaving gives a request's place back before the first byte of its answer is sent: a
// client that receives slowly holds no place. Handlers write when they need no store
// any more.
type leaving struct {
	http.ResponseWriter
	leave func() // nil once it was called
}

func (a *leaving) gone() {
	if a.leave != nil {
		a.leave()
		a.leave = nil
	}
}

// WriteHeader gives the place back, except for an interim answer such as 103.
func (a *leaving) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.gone()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write gives the place back.
func (a *leaving) Write(p []byte) (int, error) {
	a.gone()
	return a.ResponseWriter.Write(p)
}

// SetReadDeadline does nothing: the body is in memory, and huma's deadline would give a
// client that stopped more time.
func (a *leaving) SetReadDeadline(time.Time) error { return nil }

// Unwrap supports http.ResponseController.
func (a *leaving) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (g *gate) refuse(w http.ResponseWriter, r *http.Request, c Class, err error) {
	g.shed.WithLabelValues(c.String()).Inc()
	WriteProblem(w, r, err)
}

// place takes a place for a request, for an operator's first one of operatorPlaces.
// leave gives it back.
func (g *gate) place(ctx context.Context, c Class, route string, operator bool) (leave func(), ok bool) {
	if operator && g.staff.Enter(netip.Addr{}, 0, operatorPlaces) {
		return func() { g.staff.Leave(netip.Addr{}) }, true
	}
	if !g.enter(ctx, c, route) {
		return nil, false
	}
	return func() { g.leave(c, route) }, true
}

// fits reports whether there is a place for a request. The caller holds g.mu.
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

// seat gives a request its place. The caller holds g.mu.
func (g *gate) seat(c Class, route string) {
	g.inFlight[c]++
	g.ofRoute[route]++
}

// patience is how long the next request in a queue waits. The caller holds g.mu.
func (g *gate) patience(c Class) time.Duration {
	switch {
	case len(g.lines[c]) == 0:
		g.since[c] = time.Now()
	case c != Critical && time.Since(g.since[c]) > longestWait:
		return standingWait
	}
	return longestWait
}

// enter reports whether a request got a place before its patience or ctx ended.
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
		return true // the place arrived at the last moment
	}
	g.lines[c] = slices.Delete(g.lines[c], i, i+1)
	return false
}

// leave frees a request's place and seats the first queued request that fits. Only
// one place is free, so at most one gets in.
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
