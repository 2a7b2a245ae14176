// Package httpx is the HTTP edge: the router, problem documents, the OpenAPI
// document and the listeners. It knows no module; modules register with it.
//
// A request passes, in this order: its connection ([Connections]), the token, the
// rates of its route ([Load]), the limits of its route as known in memory, its body,
// a place among the requests in flight ([Bounds]), and the handler. The place is
// given back before the answer is sent, so a client that sends or receives slowly
// holds its connection and nothing else. The rush passes only its connection; where its
// request is plain (see package plainhttp), not even net/http.
//
// # The contract
//
// The document's info.version is [Version], the API's semantic version: that of the
// release which has it first. Clients may rely on operations, on the members and types
// of answers, on problem codes and on which requests are accepted. Removing or narrowing
// one of them is a breaking change: before 1.0 it raises the minor version and is in
// CHANGELOG.md; from 1.0 on it raises the major version, after the document has marked
// what goes as deprecated for at least six months.
//
// Everything else may be added in any release, and clients must bear it: members of
// answers, types of events, optional input, operations, and values of codes (status,
// kind, problem codes, enums in answers). Texts for people change at any time. A test
// compares the document with the last release's (testdata/released.json.gz).
//
// # Size
//
// The package has more than 2,000 lines because the steps above are one order: each
// reads from the request's context what an earlier one put there, and a refusal of any
// of them is one problem document. In packages of their own they would export that
// context.
package httpx

import (
	"context"
	"html/template"
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

// Router is the public router. Routes on Bare skip every middleware; only the rush
// uses it. Routes on Mux and API are counted and timed, and get request ids,
// languages and principals.
type Router struct {
	Bare    *chi.Mux
	Mux     chi.Router
	API     API
	with    Options
	direct  direct
	entry   http.Handler // of every request: the routes, for pages of other origins too where there are any
	gate    *gate
	overTLS bool     // clients reach the server with https only
	content []string // the Content-Security-Policy
	devices *devices // nil gives none
}

// Options are what a Router does beyond routing; the zero value does nothing of it.
type Options struct {
	Trace     *tracing.Tracer // traces a share of the requests on Mux and API; nil is off
	Proxies   Proxies         // that may state the client's address
	Origins   []string        // of other sites whose pages may call the API
	PublicURL string          // with https://, every answer makes browsers use nothing else (HSTS)
	RushURL   string          // where the shop's pages send rushes, if not to PublicURL
	Bounds    Bounds          // of concurrent requests on Mux and API
	// Shoppers is how many may share an address, from which the bounds per address
	// follow; 0 is no bound.
	Shoppers int
	Limiter  *ratelimit.Limiter // enforces the limits of the routes; nil enforces none
	// DeviceKeys are the process's signing keys, the current one first: with them the
	// router gives clients a signed device cookie.
	DeviceKeys [][]byte
	// Keys returns what an API key may do, or the fault of one that is not valid; nil
	// knows no keys.
	Keys func(key string) (auth.Principal, error)
	// Refused hears of every caller whose role may not call a route, with the escaped
	// path of the request, before the answer is sent.
	Refused func(ctx context.Context, op Op, path string)
	// Barred refuses the staff's routes to callers for whom it reports true, whatever
	// their role. It is called for every such request.
	Barred func(p auth.Principal) bool
}

// NewRouter returns the router of no options, for tests.
func NewRouter(tokens *auth.Tokens, log *slog.Logger, version string, metrics prometheus.Registerer) *Router {
	return Options{}.NewRouter(tokens, log, version, metrics)
}

// NewRouter returns a router that answers 404 and 405 as problems. version is the
// API document's version. metrics receives the metrics of the routes on Mux and API;
// two routers on one registry are a programming error, and panic.
func (o Options) NewRouter(tokens *auth.Tokens, log *slog.Logger, version string, metrics prometheus.Registerer) *Router {
	root := chi.NewRouter()
	root.Use(headAsGet)
	rt := &Router{Bare: root, with: o, overTLS: strings.HasPrefix(o.PublicURL, "https://"), content: []string{content(o.RushURL, ThirdParty{})}}
	if rt.entry = http.HandlerFunc(rt.route); len(o.Origins) > 0 {
		rt.entry = crossOrigin(o.Origins, rt.entry)
	}
	root.NotFound(rt.secured(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/api/") && strings.Contains(r.Header.Get("Accept"), "text/html") {
			writeNoPage(w, r)
			return
		}
		writeNamed(w, r, 0, fault.Plain(fault.NotFound,
			fault.T("This path does not exist; /docs lists the routes.", "没有该路径，全部接口见 /docs。")))
	}))
	root.MethodNotAllowed(rt.secured(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(methodsOf(root, r), ", ")) // required by RFC 9110
		writeNamed(w, r, http.StatusMethodNotAllowed, errMethod)
	}))
	// Middleware that logs a request comes after identify, so that it can log its
	// id.
	rt.API.routes, rt.API.with, rt.API.admit = routes{}, &rt.with, rt.admit
	rt.gate = newGate(metrics, rt.API.routes)
	rt.gate.tokens, rt.gate.bounds, rt.gate.shared, rt.gate.bodies.ofAddress = tokens, o.Bounds, o.Proxies.shared, o.Shoppers
	rt.gate.rater = newRater(o.Limiter, o.Shoppers)
	if len(o.DeviceKeys) > 0 {
		rt.devices = &devices{keys: auth.Keys("device-cookie", o.DeviceKeys...), secure: rt.overTLS}
	}
	mux := root.With(newTraffic(metrics).measure, rt.secure, rt.identify(), rt.gate.admit, rt.traced, logged(log), recoverPanics(log))

	cfg := huma.DefaultConfig("Stampede", version)
	cfg.Info.Description = "A flash-sale system: reserve, rush, queue, order, pay, get notified. " +
		"Errors are application/problem+json with a stable `code`; a refusal gives the reason and when to retry. " +
		"The version is semantic: before 1.0 a new minor version may remove or narrow something, as the changelog says, and from 1.0 on " +
		"only a new major one, six months after the document has marked it as deprecated. " +
		"Ignore members, event types and values of codes that you do not know: any release may add some."
	cfg.DocsPath, cfg.OpenAPIPath, cfg.SchemasPath = "", "", "" // served by the docs handlers, offline
	cfg.CreateHooks = nil                                       // no $schema member in every body
	cfg.Formats = map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat}
	cfg.RejectUnknownQueryParameters = true // like unknown members of a body: a typo must not return everything
	cfg.Servers = []*huma.Server{{URL: "/", Description: "The server of this document"}}
	cfg.Tags = tags
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		BearerScheme: {Type: "http", Scheme: "bearer", BearerFormat: "JWT"},
	}
	rt.Mux, rt.API.Huma, rt.API.Log = mux, humachi.New(mux, cfg), log
	rt.API.Member("rule", huma.Schema{Type: huma.TypeString, Description: "With rate-limited: the limit that was reached", Examples: []any{"login-address"}})
	return rt
}

// noPage is the answer to a person, in a browser, whose address has no page.
var noPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="{{.Tag}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex"><title>{{.Title}}</title></head>
<body><h1>{{.Title}}</h1><p>{{.Says}}</p><p><a href="/">{{.Home}}</a></p></body></html>
`))

// writeNoPage answers with noPage.
func writeNoPage(w http.ResponseWriter, r *http.Request) {
	lang := LanguageOf(r.Header.Get("Accept-Language"))
	SetRequestID(w, r)
	lang.inHeader(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", NoStore)
	w.WriteHeader(http.StatusNotFound)
	// An error is the client's, who has left.
	_ = noPage.Execute(w, map[string]string{
		"Tag":   [...]string{"en", "zh"}[lang],
		"Title": fault.T("This page does not exist", "页面不存在")[lang],
		"Says":  fault.T("The address may be mistyped, or the page is gone.", "网址可能有误，或页面已下线。")[lang],
		"Home":  fault.T("Go to the shop", "前往商城首页")[lang],
	})
}

var errMethod = fault.New(fault.BadRequest, "method-not-allowed",
	fault.T("This method is not available here", "不支持的请求方法"),
	fault.T("This path accepts other methods, which the Allow header lists.", "该路径支持的方法见 Allow 响应头。"),
	fault.T("Use one of the methods that the header Allow lists.", "请改用 Allow 响应头列出的方法。"))

// writeNamed is WriteProblemStatus for paths without a route, whose requests pass no
// middleware that sets their id.
func writeNamed(w http.ResponseWriter, r *http.Request, status int, err error) {
	ctx := context.WithValue(r.Context(), requestKey{}, request{id: SetRequestID(w, r)})
	WriteProblemStatus(w, r.WithContext(ctx), status, err)
}

const operatorTag = "operator"

// tags group the document's routes.
var tags = []*huma.Tag{
	{Name: "shopper", Description: "For the shop's pages and apps: browse, reserve, rush, order, pay, get notified, and log in."},
	{Name: operatorTag, Description: "For the shop's staff: plan and run sales, and manage orders, accounts, alarms and rules."},
	{Name: "provider", Description: "Signed callbacks of payment providers, and of the shop's own login."},
}

// methodsOf lists the methods that a request's path accepts. chi knows them when it
// calls the handler of 405s, but does not expose them.
func methodsOf(mux *chi.Mux, r *http.Request) []string {
	path := r.URL.RawPath // the path that chi matches
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

// ServeHTTP answers a request.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) { rt.entry.ServeHTTP(w, r) }

func (rt *Router) route(w http.ResponseWriter, r *http.Request) {
	d := &rt.direct
	if d.handler != nil && r.Method == d.method && r.URL.RawPath == "" {
		if _, ok := d.find(r.URL.Path); ok {
			rt.setSecurity(w.Header())
			d.serve(w, r)
			return
		}
	}
	rt.Bare.ServeHTTP(w, r)
}
