package httpx

import (
	"context"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
)

// Load is what a request of a route costs, which decides how many of them an
// instance accepts in a time: of a user, of an address, and in total. Every route has
// one; its own Limits, which count across instances and only valid requests, come on
// top. Requests count on arrival, malformed and unfinished ones too.
type Load uint8

const (
	// ByClass is Staff for operators' routes, Costly for relayed ones, Callback for
	// critical ones without a role, Stream for held ones, Write for other methods than
	// GET, else Read.
	ByClass Load = iota
	// Read is answered from memory, or by one read of an index.
	Read
	// Write changes a row of its caller's.
	Write
	// Costly takes locks, hashes a password, or reads a list.
	Costly
	// Callback comes from a provider.
	Callback
	// Stream opens a connection that stays.
	Stream
	// Staff is for operators, whose lists and exports are long.
	Staff
	loadKinds
)

func (l Load) String() string {
	return [...]string{"by-class", "read", "write", "costly", "callback", "stream", "staff"}[l]
}

// rateWindow is short, so that a refused client waits seconds at most, and long
// enough for the burst of a page that is reloaded.
const rateWindow = 10 * time.Second

// rate is a load's limits in a rateWindow, for each route separately; 0 is none.
type rate struct {
	user int
	// shopper is what an honest shopper needs at the busiest moment; an address gets
	// that for each of the shoppers that may share it. It is less than user, because
	// not all of them are at the limit in the same seconds.
	shopper int
	total   int
}

// rates are the limits of all routes. The numbers follow from what a page does: it
// polls a number every 2 s, and every 200 ms in the first second after a rush; it is
// reloaded about once a second by an impatient shopper around the opening; it renews
// its token once in 15 minutes. The totals are above what one machine has been
// measured to do, except Costly, where they leave Postgres able to write orders.
var rates = [loadKinds]rate{
	Read:     {user: 100, shopper: 20, total: 500_000},
	Write:    {user: 100, shopper: 10, total: 200_000},
	Costly:   {user: 20, shopper: 4, total: 20_000},
	Callback: {total: 50_000},
	Stream:   {user: 50, shopper: 4, total: 100_000},
	Staff:    {user: 1000, shopper: 10, total: 50_000},
}

// loadOf resolves ByClass.
func (d declared) loadOf(method string) Load {
	switch {
	case d.load != ByClass:
		return d.load
	case d.operator:
		return Staff
	case d.class == Relayed:
		return Costly
	case d.class >= Held:
		return Stream
	case d.class == Critical && d.role == "":
		return Callback
	case method == http.MethodGet || method == http.MethodHead:
		return Read
	default:
		return Write
	}
}

// rater enforces the rates of a router.
type rater struct {
	limiter *ratelimit.Limiter // nil enforces none

	user, address, total [loadKinds]ratelimit.Rule
}

// newRater returns the rates when so many shoppers may share an address.
func newRater(limiter *ratelimit.Limiter, shoppers int) rater {
	r := rater{limiter: limiter}
	for l := Read; l < loadKinds; l++ {
		for _, of := range []struct {
			rule  *ratelimit.Rule
			name  string
			count int
		}{{&r.user[l], "-user", rates[l].user}, {&r.address[l], "-address", rates[l].shopper * shoppers}, {&r.total[l], "-total", rates[l].total}} {
			*of.rule = ratelimit.Rule{Name: l.String() + of.name, Count: of.count, Per: rateWindow}
			if limiter != nil && of.rule.On() {
				limiter.Expect(*of.rule)
			}
		}
	}
	return r
}

// take counts a request, or returns its refusal.
func (r *rater) take(ctx context.Context, load Load, number uint32, shared bool) error {
	if r.limiter == nil {
		return nil
	}
	var room [3]ratelimit.Here
	asks := room[:0]
	if !shared {
		asks = append(asks, ratelimit.Here{Rule: &r.address[load], Route: number, Subject: ratelimit.Network(ClientAddr(ctx)).Addr().As16()})
	}
	user := auth.From(ctx).UserID
	if key := fromContext(ctx).key; user == 0 && key != nil {
		user = key.UserID
	}
	if user != 0 {
		var key [16]byte
		key[0] = 1                                        // no IPv6 network begins with it
		binary.BigEndian.PutUint64(key[8:], uint64(user)) //nolint:gosec // bits of an id
		asks = append(asks, ratelimit.Here{Rule: &r.user[load], Route: number, Subject: key})
	}
	asks = append(asks, ratelimit.Here{Rule: &r.total[load], Route: number})
	return r.limiter.TakeHere(asks...)
}

// rateLimit is one limit of a route in the document.
type rateLimit struct {
	Name    string `json:"name"` // in a rate-limited problem and in RateLimit-Policy
	Of      string `json:"of"`   // user, address, total
	Count   int    `json:"count"`
	Seconds int    `json:"seconds"`
	// Scope is instance for limits that each instance counts, else shop.
	Scope string `json:"scope"`
}

// limitsExtension is the name in the document.
const limitsExtension = "x-rate-limit"

// limitsOf are all limits of a documented route.
func (rt *Router) limitsOf(method, path string) []rateLimit {
	var all []rateLimit
	add := func(rule ratelimit.Rule, of, scope string) {
		if rule.On() {
			all = append(all, rateLimit{rule.Name, of, rule.Count, int(rule.Per / time.Second), scope})
		}
	}
	own, scope := rt.direct.limits, "instance"
	if !rt.isDirect(method, path) {
		known := rt.API.routes.of(method, path)
		load := known.loadOf(method)
		add(rt.gate.rater.user[load], "user", "instance")
		add(rt.gate.rater.address[load], "address", "instance")
		add(rt.gate.rater.total[load], "total", "instance")
		own, scope = known.limits, "shop"
	}
	for _, l := range own {
		add(l.Rule, [...]string{OfUser: "user", OfAddress: "address"}[l.Of], scope)
	}
	return all
}

// isDirect reports whether a documented route is the one of Direct.
func (rt *Router) isDirect(method, path string) bool {
	return rt.direct.handler != nil && method == rt.direct.method && strings.HasPrefix(path, rt.direct.prefix)
}
