// Package httpx is the HTTP edge: the router, problem documents, the OpenAPI
// document and the listeners. It knows no module; modules register with it.
package httpx

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/fault"
	"stampede/platform/base/tracing"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
)

// Router is the public router. Routes on Bare skip every middleware: the rush
// and nothing else. Routes on Mux and API are counted and timed, and get request
// ids, languages and principals.
type Router struct {
	Bare   *chi.Mux
	Mux    chi.Router
	API    API
	direct direct
	gate   *gate
	trace  *tracing.Tracer // nil is off
	// proxies are believed about the client's address.
	proxies Proxies
}

// Option is what a Router may have besides; without one it has none of it.
type Option func(*Router)

// Traced has a share of the requests on Mux and API followed.
func Traced(t *tracing.Tracer) Option { return func(rt *Router) { rt.trace = t } }

// Behind names the proxies that are believed about the client's address.
func Behind(p Proxies) Option { return func(rt *Router) { rt.proxies = p } }

// Bounded sets how many requests on Mux and API are worked on at once.
func Bounded(b Bounds) Option { return func(rt *Router) { rt.gate.bounds = b } }

// Limited has l keep the limits of the routes.
func Limited(l *ratelimit.Limiter) Option { return func(rt *Router) { rt.API.limiter = l } }

// ReportRefusals has hear called for everybody whose role may not call a route, with
// the escaped path that was asked for, before the answer is sent.
func ReportRefusals(hear func(ctx context.Context, op Op, path string)) Option {
	return func(rt *Router) { rt.API.refused = hear }
}

// NewRouter returns a router that answers 404 and 405 as problems. version is
// the API document's version. metrics takes the figures of the routes on Mux and
// API; two routers on one of them are a mistake in the program, and panic.
func NewRouter(tokens *auth.Tokens, log *slog.Logger, version string, metrics prometheus.Registerer, with ...Option) *Router {
	root := chi.NewRouter()
	root.Use(headAsGet)
	root.NotFound(func(w http.ResponseWriter, r *http.Request) {
		writeNamed(w, r, 0, fault.Plain(fault.NotFound, "There is nothing at this address; /docs lists what there is."))
	})
	root.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(methodsOf(root, r), ", ")) // RFC 9110 asks for it
		writeNamed(w, r, http.StatusMethodNotAllowed, errMethod)
	})
	rt := &Router{Bare: root}
	// Who speaks of a request comes after identify, so that it can name its id.
	rt.API.classes = classes{}
	rt.gate = newGate(metrics, rt.API.classes)
	mux := root.With(newTraffic(metrics).measure, secure, rt.gate.admit, rt.identify(tokens), rt.traced, logged(log), recoverPanics(log))

	cfg := huma.DefaultConfig("Stampede", version)
	cfg.Info.Description = "A flash-sale system: reserve, rush, queue, order, pay, be told. " +
		"Errors are application/problem+json with a stable `code`; a refusal says why and when to come back."
	cfg.DocsPath, cfg.OpenAPIPath, cfg.SchemasPath = "", "", "" // served by the docs handlers, offline
	cfg.CreateHooks = nil                                       // no $schema member in every body
	cfg.Formats = map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat}
	cfg.RejectUnknownQueryParameters = true // like unknown members of a body: a typo must not return everything
	cfg.Servers = []*huma.Server{{URL: "/", Description: "The server that this document comes from"}}
	cfg.Tags = tags
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		BearerScheme: {Type: "http", Scheme: "bearer", BearerFormat: "JWT"},
	}
	rt.Mux, rt.API.Huma, rt.API.Log = mux, humachi.New(mux, cfg), log
	rt.API.Member("rule", huma.Schema{Type: huma.TypeString, Description: "The limit that was reached, of rate-limited", Examples: []any{"login-address"}})
	for _, option := range with {
		option(rt)
	}
	return rt
}

var errMethod = fault.New(fault.BadRequest, "method-not-allowed", fault.Titles{"This method is not available here", "不支持的请求方法"},
	"This address answers to other methods, which the Allow header lists.")

// writeNamed is WriteProblemStatus for addresses without a route, whose requests
// pass no middleware that would have named them.
func writeNamed(w http.ResponseWriter, r *http.Request, status int, err error) {
	ctx := context.WithValue(r.Context(), requestKey{}, request{id: requestID(w, r)})
	WriteProblemStatus(w, r.WithContext(ctx), status, err)
}

const operatorTag = "operator"

// tags are what the document sorts routes by.
var tags = []*huma.Tag{
	{Name: "shopper", Description: "What pages and apps of the shop call: browse, reserve, rush, order, pay, be told, and log in."},
	{Name: operatorTag, Description: "What the shop's own people call: plan sales, run them, look after orders, accounts, alarms and rules."},
	{Name: "provider", Description: "What payment providers call, signed."},
}

// methodsOf lists the methods that a request's address answers to. chi knows
// them when it calls the handler of 405s, but tells only its own.
func methodsOf(mux *chi.Mux, r *http.Request) []string {
	path := r.URL.RawPath // what chi routes by
	if path == "" {
		path = r.URL.Path
	}
	var allowed []string
	for _, method := range []string{
		http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace,
	} {
		if mux.Match(chi.NewRouteContext(), method, path) {
			allowed = append(allowed, method)
			if method == http.MethodGet {
				allowed = append(allowed, http.MethodHead) // see headAsGet
			}
		}
	}
	return allowed
}

// direct is the one route that is found without the router.
type direct struct {
	method, prefix string
	handler        http.Handler
}

// Direct registers the rush on Bare and lets its requests pass the router by:
// finding the route would cost a tenth of what refusing one does. prefix is the
// address up to its last segment, which the handler reads itself. There is one
// such route; call it before serving.
func (rt *Router) Direct(method, prefix string, h http.Handler) {
	rt.Bare.Method(method, prefix+"{segment}", h) // for what the router is asked: other methods, the list of routes
	rt.direct = direct{method, prefix, h}
}

// ServeHTTP answers a request.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := &rt.direct
	if d.handler != nil && r.Method == d.method && r.URL.RawPath == "" {
		if last, ok := strings.CutPrefix(r.URL.Path, d.prefix); ok && last != "" && strings.IndexByte(last, '/') < 0 {
			d.handler.ServeHTTP(w, r)
			return
		}
	}
	rt.Bare.ServeHTTP(w, r)
}
