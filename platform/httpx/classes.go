package httpx

import (
	"net/http"
	"strings"
)

// class is how much a request's refusal costs a shopper, when not everybody can be
// served.
type class uint8

const (
	// critical is what money or a unit hangs on: callbacks of payment providers,
	// orders and their payments.
	critical class = iota
	// normal is everything else.
	normal
	// sheddable can be asked again without harm: browsing, which caches before us
	// answer as well, pages, and what operators look at. What operators change is
	// normal, because pausing a sale is how they end an overload.
	sheddable
	classes // how many there are
	// held is a connection that stays open for the client's sake. It has bounds of
	// its own and takes no place among requests.
	held
)

func (c class) String() string { return [...]string{"critical", "normal", "sheddable"}[c] }

// classOf finds the class by the route's pattern, which is ours, and not by the
// address, which the client wrote.
func classOf(method, pattern string) class {
	api, ok := strings.CutPrefix(pattern, "/api/v1/")
	read := method == http.MethodGet || method == http.MethodHead
	switch {
	case !ok && strings.HasPrefix(pattern, "/demo/live"):
		return held // a stream of events
	case !ok && read:
		return sheddable // pages and documents
	case !ok:
		return normal
	case api == "ws", read && api == "auth/qr/{id}": // the poll waits if it is asked to
		return held
	case strings.HasPrefix(api, "payments/"), api == "orders", strings.HasPrefix(api, "orders/"):
		return critical
	case read && (strings.HasPrefix(api, "admin/") || strings.HasPrefix(api, "sessions") || api == "items/{id}"):
		return sheddable
	}
	return normal
}
