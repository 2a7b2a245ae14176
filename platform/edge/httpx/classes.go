package httpx

import (
	"net/http"
	"strings"
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
)

func (c Class) String() string {
	return [...]string{"by-rule", "critical", "normal", "sheddable", "held"}[c]
}

// route is a method and a registered path pattern. The pattern is chosen by the
// server, unlike the path itself, which the client chose.
type route struct{ method, pattern string }

// classes maps the registered routes to their classes.
type classes map[route]Class

// of returns the class of a route. GET's handler serves HEAD.
func (known classes) of(method, pattern string) Class {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if c := known[route{method, pattern}]; c != ByRule {
		return c
	}
	if method == http.MethodGet && !strings.HasPrefix(pattern, "/api/") {
		return Sheddable
	}
	return Normal
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
	rt.API.classes[route{method, pattern}] = class
	rt.Mux.Method(method, pattern, h)
}

// ClassOf returns the class of a route of Mux or API.
func (rt *Router) ClassOf(method, pattern string) Class { return rt.API.classes.of(method, pattern) }
