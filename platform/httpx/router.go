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

	"stampede/platform/auth"
	"stampede/platform/fault"
	"stampede/platform/telemetry/tracing"
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
	// Trace follows a share of the requests on Mux and API; nil is off. Set it
	// before serving.
	Trace *tracing.Tracer
	// Proxies are believed about the client's address. Set it before serving.
	Proxies Proxies
}

// NewRouter returns a router that answers 404 and 405 as problems. version is
// the API document's version. metrics takes the figures of the routes on Mux and
// API; two routers on one of them are a mistake in the program, and panic.
func NewRouter(tokens *auth.Tokens, log *slog.Logger, version string, metrics prometheus.Registerer) *Router {
	root := chi.NewRouter()
	root.Use(headAsGet)
	root.NotFound(func(w http.ResponseWriter, r *http.Request) {
		writeNamed(w, r, 0, fault.New(fault.NotFound, "not-found", "There is nothing at this address; /docs lists what there is."))
	})
	root.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(methodsOf(root, r), ", ")) // RFC 9110 asks for it
		writeNamed(w, r, http.StatusMethodNotAllowed,
			fault.New(fault.BadRequest, "method-not-allowed", "This address answers to other methods, which the Allow header lists."))
	})
	rt := &Router{Bare: root}
	// Who speaks of a request comes after identify, so that it can name its id.
	rt.gate = newGate(metrics)
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
	rt.Mux, rt.API = mux, API{Huma: humachi.New(mux, cfg), Log: log}
	return rt
}

// writeNamed is WriteProblemStatus for addresses without a route, whose requests
// pass no middleware that would have named them.
func writeNamed(w http.ResponseWriter, r *http.Request, status int, err error) {
	ctx := context.WithValue(r.Context(), requestKey{}, request{id: name(w, r)})
	WriteProblemStatus(w, r.WithContext(ctx), status, err)
}

// tags are what the document sorts routes by.
var tags = []*huma.Tag{
	{Name: "shopper", Description: "What pages and apps of the shop call: browse, reserve, rush, order, pay, be told, and log in."},
	{Name: "operator", Description: "What the shop's own people call: plan sales, run them, look after orders, accounts, alarms and rules."},
	{Name: "provider", Description: "What payment providers call, signed."},
}

// Bound sets how many requests on Mux and API are worked on at once; without it
// there is no limit. Call it before serving.
func (rt *Router) Bound(b Bounds) { rt.gate.bounds = b }

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
