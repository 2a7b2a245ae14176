// Package httpx is the HTTP edge: the router, problem documents, the OpenAPI
// document and the listeners. It knows no module; modules register with it.
package httpx

import (
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"stampede/platform/auth"
	"stampede/platform/fault"
)

// Router is the public router. Routes on Bare skip every middleware: the rush
// and nothing else. Routes on Mux and API get request ids, languages and
// principals.
type Router struct {
	Bare *chi.Mux
	Mux  chi.Router
	API  API
}

// NewRouter returns a router that answers 404 and 405 as problems. version is
// the API document's version.
func NewRouter(tokens *auth.Tokens, log *slog.Logger, version string) *Router {
	root := chi.NewRouter()
	root.NotFound(func(w http.ResponseWriter, r *http.Request) {
		WriteProblem(w, r, fault.New(fault.NotFound, "not-found", "There is nothing at this address; /docs lists what there is."))
	})
	root.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		p := NewProblem(fault.New(fault.BadRequest, "method-not-allowed", "This address answers to other methods; /docs lists them."), LanguageOf(r.Header.Get("Accept-Language")))
		p.Status = http.StatusMethodNotAllowed
		w.Header().Set("Content-Type", ProblemContentType)
		w.WriteHeader(p.Status)
		body, _ := p.MarshalJSON() // plain strings and an int cannot fail to encode
		_, _ = w.Write(body)
	})
	mux := root.With(recoverPanics(log), secure, identify(tokens))

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

// ServeHTTP answers a request.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) { rt.Bare.ServeHTTP(w, r) }
