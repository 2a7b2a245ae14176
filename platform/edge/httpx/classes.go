package httpx

import (
	"net/http"
	"strings"
)

// Class is how much a request's refusal costs a shopper when the server cannot take
// every request. A route's owner gives it with the registration.
type Class uint8

const (
	// ByRule is Sheddable for pages and for what operators read, and Normal for
	// everything else. What operators change is Normal, because pausing a sale is how
	// they end an overload.
	ByRule Class = iota
	// Critical is what money or a unit hangs on.
	Critical
	// Normal is a request that a client has to repeat when it is refused.
	Normal
	// Sheddable can be asked again without harm: caches before the server answer it
	// as well.
	Sheddable
	// Held is a connection that stays open for the client's sake. It has bounds of
	// its own and takes no place among requests.
	Held
)

func (c Class) String() string {
	return [...]string{"by-rule", "critical", "normal", "sheddable", "held"}[c]
}

// route is a method and the pattern of an address, which is ours, unlike the address
// itself, which the client wrote.
type route struct{ method, pattern string }

// classes are those that routes were registered with.
type classes map[route]Class

// of is the class of a route. HEAD is served by GET's handler.
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

// class is what the operation is registered with.
func (op *Op) class() Class {
	if op.Class == ByRule && op.Method == http.MethodGet && op.Tag == operatorTag {
		return Sheddable
	}
	return op.Class
}

// Handle registers a route that is not documented by Register: a callback whose
// signature covers the raw body, a WebSocket, a stream.
func (rt *Router) Handle(class Class, method, pattern string, h http.HandlerFunc) {
	rt.API.classes[route{method, pattern}] = class
	rt.Mux.Method(method, pattern, h)
}

// ClassOf returns the class of a route of Mux or API.
func (rt *Router) ClassOf(method, pattern string) Class { return rt.API.classes.of(method, pattern) }
