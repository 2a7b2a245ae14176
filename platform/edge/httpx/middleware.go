package httpx

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
)

// BearerScheme is the name of the security scheme in the OpenAPI document.
const BearerScheme = "bearer"

var problemType = reflect.TypeFor[Problem]()

type requestKey struct{}

// request is what the middleware learned about a request, in one context value
// instead of several.
type request struct {
	id    string
	lang  Language
	token error // why the token is not valid
	// key is who calls by an API key, nil for the others. It is not the context's principal until a route
	// has accepted its scope: what asks only for a principal serves no keys.
	key *auth.Principal

	client  netip.Addr
	origin  netip.Addr  // see Origin
	cookies []string    // the request's
	devices *devices    // nil gives none
	header  http.Header // the answer's
}

func fromContext(ctx context.Context) request {
	r, _ := ctx.Value(requestKey{}).(request)
	return r
}

// RequestID ties an answer to its log lines; empty outside a request.
func RequestID(ctx context.Context) string { return fromContext(ctx).id }

// LanguageFrom is the language of the request in ctx.
func LanguageFrom(ctx context.Context) Language { return fromContext(ctx).lang }

// maxRequestIDBytes bounds an id sent by the client or a proxy.
const maxRequestIDBytes = 64

// identify puts the request id, the language and the principal into the context. A
// token that is not admitted is noted, not refused: public routes still answer.
func (rt *Router) identify() func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			req := request{
				id: SetRequestID(w, r), lang: LanguageOf(r.Header.Get("Accept-Language")), client: rt.with.Proxies.client(r),
				header: w.Header(), cookies: r.Header["Cookie"], devices: rt.devices,
			}
			if !rt.with.Proxies.shared(req.client) {
				req.origin = req.client
			}
			var ctx context.Context
			ctx, req.key, req.token = rt.admit(r.Context(), r.Header.Get("Authorization"))
			next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, requestKey{}, req)))
		})
	}
}

// admit returns ctx with the principal of the token in an Authorization header. key is who
// calls by an API key, and refused why a token or key is not admitted.
func (rt *Router) admit(ctx context.Context, authorization string) (_ context.Context, key *auth.Principal, refused error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110, 11.1
		return ctx, nil, nil
	}
	token = strings.TrimLeft(token, " ")
	if rt.with.Keys != nil && strings.HasPrefix(token, auth.KeyPrefix) {
		p, err := rt.with.Keys(token)
		if err != nil {
			return ctx, nil, err
		}
		return ctx, &p, nil
	}
	p, err := rt.gate.tokens.Admit(ctx, token)
	if err != nil {
		return ctx, nil, err
	}
	return auth.Into(ctx, p), nil, nil
}

// SetRequestID returns the id that the request carries, of printable ASCII, or a new
// one, and writes it to the answer. Only what no middleware precedes calls it.
func SetRequestID(w http.ResponseWriter, r *http.Request) string {
	id := r.Header["X-Request-Id"]
	if len(id) == 0 || !validRequestID(id[0]) {
		id = newRequestID()
	}
	w.Header()["X-Request-Id"] = id[:1:1]
	return id[0]
}

func validRequestID(id string) bool {
	return id != "" && len(id) <= maxRequestIDBytes && !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })
}

// requestIDs are ids made in advance: most requests of a sale are refused within
// microseconds, of which an id of its own would take a noticeable part.
type requestIDs struct {
	ids  [64]string
	next int
}

var madeRequestIDs sync.Pool // of *requestIDs with at least one left

// newRequestID returns an id as a header's only value.
func newRequestID() []string {
	made, ok := madeRequestIDs.Get().(*requestIDs)
	if !ok {
		made = new(requestIDs)
		id, texts := ids.New(), make([]byte, 0, len(made.ids)*2*len(ids.ID{}))
		for k := range made.ids {
			id[len(id)-1] = byte(k) // the other bytes are random enough
			texts, _ = id.AppendText(texts)
		}
		all := string(texts)
		for k := range made.ids {
			made.ids[k], all = all[:2*len(id)], all[2*len(id):]
		}
	}
	id := made.ids[made.next : made.next+1]
	if made.next++; made.next < len(made.ids) {
		madeRequestIDs.Put(made)
	}
	return id
}

// recoverPanics turns a panic into a logged 500, except the panic that net/http uses
// to abort a connection.
func recoverPanics(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { //nolint:contextcheck // it uses the request's context
				v := recover()
				if v == nil {
					return
				}
				if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares the same way
					panic(v)
				}
				log.ErrorContext(r.Context(), "handler panicked", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
				if statusBegun(w) != 0 {
					panic(http.ErrAbortHandler) // the client must see that the answer is not whole
				}
				WriteProblem(w, r, fault.ErrInternal)
			}()
			next.ServeHTTP(w, r)
		})
	}
}

// traced traces a share of the requests.
func (rt *Router) traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !rt.with.Trace.On() {
			next.ServeHTTP(w, r)
			return
		}
		ctx, span := rt.with.Trace.Root(r.Context(), r.Method)
		if !span.On() {
			next.ServeHTTP(w, r)
			return
		}
		defer func() { // also when the handler panics
			route := chi.RouteContext(ctx).RoutePattern()
			span.Name(r.Method + " " + route)
			span.Set(attribute.String("http.request.method", r.Method), attribute.String("http.route", route),
				attribute.Int("http.response.status_code", statusSoFar(w)), attribute.String("request_id", RequestID(ctx)))
			span.End(nil)
		}()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// logged writes a debug line for each request: in normal operation requests are
// counted, and only failures are logged.
func logged(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !log.Enabled(r.Context(), slog.LevelDebug) {
				next.ServeHTTP(w, r)
				return
			}
			began := time.Now()
			next.ServeHTTP(w, r)
			log.DebugContext(r.Context(), "request", "method", r.Method, "route", chi.RouteContext(r.Context()).RoutePattern(),
				"status", statusSoFar(w), "took", time.Since(began))
		})
	}
}

// statusSoFar is the status written to measure's writer, maybe through the gate's;
// nothing written becomes 200.
func statusSoFar(w http.ResponseWriter) int { return cmp.Or(statusBegun(w), http.StatusOK) }

// statusBegun is statusSoFar, but 0 while nothing is written.
func statusBegun(w http.ResponseWriter) int {
	if gated, ok := w.(*leaving); ok {
		w = gated.ResponseWriter
	}
	if answer, ok := w.(middleware.WrapResponseWriter); ok {
		return answer.Status()
	}
	return 0
}

// The headers that every answer carries. The slices are shared by all answers, which
// costs an attempt less than a new one for each; Set replaces them, and Add copies.
var (
	nosniff   = []string{"nosniff"}
	ownOpener = []string{"same-origin"}
	// Other sites learn the origin alone. WeChat Pay's h5 page and a verifier's widget refuse to work without it.
	originOnly = []string{"strict-origin"}
	// A year without http. Other names of the shop's domain decide for themselves.
	onlyHTTPS = []string{"max-age=31536000"}
)

// ThirdParty is what a page of ours loads from others: sources of a
// Content-Security-Policy, separated by spaces.
type ThirdParty struct {
	Scripts string // of scripts, and of the styles, frames and calls that they make
	Calls   string // of calls only
}

// content lets the pages load what this server has, and pictures, and call the address of
// rushes.
func content(rushURL string, other ThirdParty) string {
	policy := "default-src 'self'; img-src 'self' https: data:; style-src 'self' 'unsafe-inline'"
	calls := rushURL
	if other.Scripts != "" {
		policy += " " + other.Scripts + "; script-src 'self' " + other.Scripts + "; frame-src 'self' " + other.Scripts
		calls = strings.TrimSpace(rushURL + " " + other.Scripts + " " + other.Calls)
	}
	policy += "; form-action 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'"
	if calls != "" {
		policy += "; connect-src 'self' " + strings.Join(strings.Fields(calls), " ")
	}
	return policy
}

// AllowThirdParty wraps the handler of a page that runs a script of others. A zero
// ThirdParty changes nothing.
func (rt *Router) AllowThirdParty(other ThirdParty, next http.HandlerFunc) http.HandlerFunc {
	if other == (ThirdParty{}) {
		return next
	}
	policy := content(rt.with.RushURL, other)
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		next(w, r)
	}
}

// secure sets these headers.
func (rt *Router) secure(next http.Handler) http.Handler { return rt.secured(next.ServeHTTP) }

// secured is secure for what no middleware precedes.
func (rt *Router) secured(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rt.setSecurity(w.Header())
		next(w, r)
	}
}

func (rt *Router) setSecurity(h http.Header) {
	h["X-Content-Type-Options"] = nosniff
	h["Referrer-Policy"] = originOnly
	h["Cross-Origin-Opener-Policy"] = ownOpener
	h["Content-Security-Policy"] = rt.content
	if rt.overTLS {
		h["Strict-Transport-Security"] = onlyHTTPS
	}
}

// headAsGet serves HEAD wherever GET is served (RFC 9110, 9.1): load balancers,
// monitors and link checkers use it. net/http omits the body.
func headAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		ctx, enough := context.WithCancel(r.Context())
		defer enough()
		chi.RouteContext(ctx).RouteMethod = http.MethodGet
		next.ServeHTTP(headers{w, enough}, r.WithContext(ctx))
	})
}

// headers wraps the writer when only the header is wanted. A stream has sent it with
// its first flush, and its handler's context is then canceled: otherwise it would
// run for as long as the client keeps the connection for other requests.
type headers struct {
	http.ResponseWriter
	enough context.CancelFunc
}

// Flush sends the header.
func (h headers) Flush() {
	_ = http.NewResponseController(h.ResponseWriter).Flush() // it fails only if the client has left
	h.enough()
}

// Unwrap supports http.ResponseController.
func (h headers) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// traffic measures the answers of a router. The route is the registered pattern,
// never the path of the request: paths contain order numbers and anything that a
// client makes up, and each would become a separate series.
type traffic struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newTraffic(reg prometheus.Registerer) *traffic {
	auto := promauto.With(reg)
	return &traffic{
		requests: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_http_requests_total",
			Help: "Requests answered, by route, method and status. The rush is counted by code, in stampede_seckill_rush_answers_total.",
		}, []string{"route", "method", "status"}),
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stampede_http_request_seconds",
			Help: "Time from the routed request to the end of its handler, by route. A WebSocket counts until it is accepted.",
			// A poll answered from memory takes 0.1 ms, one that queries Postgres a
			// few ms, and after readTimeout, 15 s, the client is gone.
			Buckets: prometheus.ExponentialBuckets(0.000_25, 4, 9),
		}, []string{"route"}),
	}
}

// measure counts a request when its handler has returned. A request whose handler
// aborted the connection (http.ErrAbortHandler) has no status and is not counted.
func (t *traffic) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		answer := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		next.ServeHTTP(answer, r)
		route := chi.RouteContext(r.Context()).RoutePattern()
		t.requests.WithLabelValues(route, r.Method, strconv.Itoa(statusSoFar(answer))).Inc()
		t.seconds.WithLabelValues(route).Observe(time.Since(began).Seconds())
	})
}
