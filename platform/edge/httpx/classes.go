package httpx

import (
	"context"
	"net/http"
	"strings"

	"stampede/platform/edge/auth"
)

// Class is how much a refusal of the request costs a shopper when the server cannot
// accept every request. The owner of a route sets it with the registration.
type Class uint8

const (
	// ByRule is Sheddable for pages and operators' reads, and Normal for everything
	// else. Operators' changes are Normal, because pausing a sale is how they end an
	// overload.
	ByRule Class = iota
	// Critical requests carry money or a unit.
	Critical
	// Normal requests must be repeated by the client when refused.
	Normal
	// Sheddable requests can be repeated without harm; caches in front of the server
	// answer them too.
	Sheddable
	// Held is a connection that stays open for the client. It has separate bounds
	// and takes no place among requests.
	Held
	// Events is a stream of server-sent events. Streams have bounds per user, per address
	// and in total, give way to every other connection, and end with their token.
	Events
	// Relayed is answered by requests to other routes, which take the places. Its rates
	// are those of Costly, and its handler reads the body with Receive.
	Relayed
	// Static is answered from memory without any work: it takes no place either.
	Static
)

func (c Class) String() string {
	return [...]string{"by-rule", "critical", "normal", "sheddable", "held", "events", "relayed", "static"}[c]
}

// route is a method and a registered path pattern. The pattern is chosen by the
// server, unlike the path itself, which the client chose.
type route struct{ method, pattern string }

// declared is what the middleware must know of a route before its handler runs.
type declared struct {
	class    Class
	role     auth.Role  // of Op; empty is public
	scope    auth.Scope // of Op; empty is closed to API keys
	operator bool       // for operators
	maxBody  int64
	load     Load
	number   uint32 // of the route, for its rates
	limits   []Limit
	weigh    func(context.Context) error // refuses by the limits before the body is read; nil if there are none
}

// routes are the registered routes.
type routes map[route]declared

// add registers a route.
func (known routes) add(method, pattern string, d declared) {
	d.number = uint32(len(known)) + 1 //nolint:gosec // some hundred
	known[route{method, pattern}] = d
}

// of returns what is known of a route. GET's handler serves HEAD.
func (known routes) of(method, pattern string) declared {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	d := known[route{method, pattern}]
	if d.class == ByRule {
		d.class = Normal
		if method == http.MethodGet && !strings.HasPrefix(pattern, "/api/") {
			d.class = Sheddable
		}
	}
	if d.maxBody == 0 {
		d.maxBody = defaultMaxBody
	}
	return d
}

// class returns the class that the operation is registered with.
func (op *Op) class() Class {
	if op.Class == ByRule && op.Method == http.MethodGet && op.Tag == operatorTag {
		return Sheddable
	}
	return op.Class
}

// Handle registers a route without documentation by Register: a callback whose
// signature covers the raw body, a WebSocket, a stream.
func (rt *Router) Handle(class Class, method, pattern string, h http.HandlerFunc) {
	rt.API.routes.add(method, pattern, declared{class: class})
	rt.Mux.Method(method, pattern, h)
}
