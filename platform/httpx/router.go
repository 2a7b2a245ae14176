// Package httpx is the HTTP edge: the router, problem documents, the OpenAPI
// document and the listeners. It knows no module; modules register with it.
package httpx

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/auth"
	"stampede/platform/fault"
)

// Router is the public router. Routes on Bare skip every middleware: the rush
// and nothing else. Routes on Mux and API are counted and timed, and get request
// ids, languages and principals.
type Router struct {
	Bare *chi.Mux
	Mux  chi.Router
	API  API
}

// NewRouter returns a router that answers 404 and 405 as problems. version is
// the API document's version. metrics takes the figures of the routes on Mux and
// API; two routers on one of them are a mistake in the program, and panic.
func NewRouter(tokens *auth.Tokens, log *slog.Logger, version string, metrics prometheus.Registerer) *Router {
	root := chi.NewRouter()
	root.NotFound(func(w http.ResponseWriter, r *http.Request) {
		WriteProblem(w, r, fault.New(fault.NotFound, "not-found", "There is nothing at this address; /docs lists what there is."))
	})
	root.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(methodsOf(root, r), ", ")) // RFC 9110 asks for it
		WriteProblemStatus(w, r, http.StatusMethodNotAllowed,
			fault.New(fault.BadRequest, "method-not-allowed", "This address answers to other methods, which the Allow header lists."))
	})
	mux := root.With(newTraffic(metrics).measure, recoverPanics(log), secure, identify(tokens))

	cfg := huma.DefaultConfig("Stampede", version)
	cfg.Info.Description = "A flash-sale system: reserve, rush, queue, order, pay, be told. " +
		"Errors are application/problem+json with a stable `code`; a refusal says why and when to come back."
	cfg.DocsPath, cfg.OpenAPIPath, cfg.SchemasPath = "", "", "" // served by the docs handlers, offline
	cfg.CreateHooks = nil                                       // no $schema member in every body
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		BearerScheme: {Type: "http", Scheme: "bearer", BearerFormat: "JWT"},
	}
	return &Router{Bare: root, Mux: mux, API: API{Huma: humachi.New(mux, cfg), Log: log}}
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
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace,
	} {
		if mux.Match(chi.NewRouteContext(), method, path) {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// ServeHTTP answers a request.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) { rt.Bare.ServeHTTP(w, r) }
