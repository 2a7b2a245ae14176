package httpx

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// gated is a real server with a router, whose loopback clients count like others.
type gated struct {
	*Server
	rt     *Router
	tokens *auth.Tokens
}

func gatedBy(t *testing.T, bounds Bounds, routes func(*Router), change ...func(*connections)) gated {
	t.Helper()
	tokens := auth.NewTokens([]byte(strings.Repeat("k", auth.MinKeyBytes)), time.Now)
	rt := Options{Bounds: bounds}.NewRouter(tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	rt.gate.shared = func(netip.Addr) bool { return false }
	routes(rt)
	// No client is cut off before the end of its test.
	change = append(change, func(l *connections) { l.patient = writeTimeout })
	return gated{serving(t, Connections{}, rt, change...), rt, tokens}
}

// send sends a request on a connection of its own.
func (g gated) send(t *testing.T, method, path, token, body string) httpxtest.Answer {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	return httpxtest.Send(t, client, method, "http://"+g.Addr()+path, token, body, "Content-Type", "")
}

func (g gated) code(t *testing.T, method, path, token, body string) int {
	t.Helper()
	return g.send(t, method, path, token, body).Status
}

type named struct {
	Body struct{ Name string }
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func none(context.Context, *named) (*struct{}, error) { return nil, nil }

// TestAttackSlowReadersHoldNoPlace: as many clients as there are places do not read
// their long answers, and many more pipeline requests for short ones.
func TestAttackSlowReadersHoldNoPlace(t *testing.T) {
	t.Parallel()
	const places = 3
	entered := make(chan struct{}, 100)
	g := gatedBy(t, Bounds{InFlight: places}, func(rt *Router) {
		rt.Handle(Critical, http.MethodGet, "/api/v1/long", func(w http.ResponseWriter, _ *http.Request) {
			entered <- struct{}{}
			_, _ = w.Write(make([]byte, 64<<20))
		})
		rt.Handle(Critical, http.MethodGet, "/api/v1/short", ok)
		rt.Handle(Static, http.MethodGet, "/file", greets)
	})
	for range places {
		dialFrom(t, g.Server, "127.0.0.1", "GET /api/v1/long HTTP/1.1\r\nHost: x\r\n\r\n")
		<-entered
	}
	for range 3 {
		require.Equal(t, "another request", g.code(t, http.MethodGet, "/api/v1/short", "", ""), http.StatusNoContent)
	}
}

// TestAttackShoppersLeaveOperatorsPlaces: browsing leaves places to what is critical, and is
// told when to come back; with every place taken an operator is served, on operators' routes
// only, and a shopper's token takes no operator's place.
func TestAttackShoppersLeaveOperatorsPlaces(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 1), make(chan struct{})
	g := gatedBy(t, Bounds{InFlight: 2}, func(rt *Router) {
		for path, class := range map[string]Class{"/api/v1/browse": Sheddable, "/api/v1/pays": Critical} {
			rt.Handle(class, http.MethodGet, path, func(http.ResponseWriter, *http.Request) {
				entered <- struct{}{}
				<-release
			})
		}
		Register(rt.API, Op{Method: http.MethodPost, Path: "/api/v1/admin/pause", ID: "pause", NoKey: "a test", Tag: operatorTag, Role: auth.Operator, Audit: "test"}, none)
	})
	t.Cleanup(func() { close(release) })
	for _, path := range []string{"browse", "pays"} {
		dialFrom(t, g.Server, "127.0.0.1", "GET /api/v1/"+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		<-entered
		a := g.send(t, http.MethodGet, "/api/v1/browse", "", "")
		if after := a.Header.Get("Retry-After"); a.Status != http.StatusServiceUnavailable || a.Doc["code"] != "overloaded" || after < "1" || after > "3" {
			t.Errorf("more browsing: %d %s, Retry-After %q", a.Status, a.Raw, after)
		}
	}
	for role, want := range map[auth.Role]int{auth.Operator: http.StatusNoContent, auth.Shopper: http.StatusServiceUnavailable} {
		token := httpxtest.Token(t, g.tokens, auth.Principal{UserID: 1, Role: role})
		require.Equal(t, string(role), g.code(t, http.MethodPost, "/api/v1/admin/pause", token, `{"Name":"x"}`), want)
	}
}

// half is a request whose body does not arrive.
const half = "POST /api/v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"

var loginOp = Op{Method: http.MethodPost, Path: "/api/v1/login", ID: "login", NoKey: "a test"}

// TestAttackHalfSentBodies: many more unfinished requests than places, of a public
// route and of one of each class, leave the places free.
func TestAttackHalfSentBodies(t *testing.T) {
	t.Parallel()
	g := gatedBy(t, Bounds{InFlight: 4, OfRoute: 1}, func(rt *Router) {
		rt.gate.bodies.timeout = time.Hour
		Register(rt.API, loginOp, none)
		rt.Handle(Sheddable, http.MethodPost, "/api/v1/plain", ok)
	})
	for range 20 {
		dialFrom(t, g.Server, "127.0.0.1", half)
		dialFrom(t, g.Server, "127.0.0.1", strings.ReplaceAll(half, "login", "plain"))
		require.Equal(t, "a whole request", g.code(t, http.MethodPost, "/api/v1/login", "", `{"Name":"x"}`), http.StatusNoContent)
		require.Equal(t, "a whole request of the other route", g.code(t, http.MethodPost, "/api/v1/plain", "", "x"), http.StatusNoContent)
	}
}

// answeredOn reads an answer's status.
func answeredOn(t *testing.T, c net.Conn) int {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestAttackBodiesOfOneAddress: an address has a bound of unfinished bodies, and
// another address is not affected. Unfinished bodies are answered after a time, in which
// they hold no place.
func TestAttackBodiesOfOneAddress(t *testing.T) {
	t.Parallel()
	g := gatedBy(t, Bounds{InFlight: 4}, func(rt *Router) {
		rt.gate.bodies.ofAddress, rt.gate.bodies.timeout = 3, time.Hour
		Register(rt.API, loginOp, none)
	})
	b := &g.rt.gate.bodies
	for range b.ofAddress {
		dialFrom(t, g.Server, "127.0.0.3", half)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.small.Taken() == b.ofAddress }, "the bodies are being read")
	require.Equal(t, "one body more of the address", answeredOn(t, dialFrom(t, g.Server, "127.0.0.3", half)), http.StatusServiceUnavailable)
	require.Equal(t, "another address", g.code(t, http.MethodPost, "/api/v1/login", "", `{"Name":"x"}`), http.StatusNoContent)

	late := gatedBy(t, Bounds{OfRoute: 1}, func(rt *Router) {
		rt.gate.bodies.timeout = 20 * time.Millisecond
		Register(rt.API, loginOp, none)
	})
	for range 2 { // one after the other: while the first is read, the route has no place
		require.Equal(t, "a body that stopped", answeredOn(t, dialFrom(t, late.Server, "127.0.0.3", half)), http.StatusRequestTimeout)
	}
	require.Equal(t, "a whole request later", late.code(t, http.MethodPost, "/api/v1/login", "", `{"Name":"x"}`), http.StatusNoContent)
}

// TestAttackTooLongBodyThatStops: a client that sends more than a route reads, and
// then nothing, keeps neither its answer waiting nor its connection.
func TestAttackTooLongBodyThatStops(t *testing.T) {
	t.Parallel()
	g := gatedBy(t, Bounds{InFlight: 4}, func(rt *Router) {
		rt.gate.bodies.timeout = 200 * time.Millisecond
		rt.Handle(Critical, http.MethodPost, "/api/v1/plain", ok)
		Register(rt.API, loginOp, none)
	})
	for path, want := range map[string]int{"/api/v1/plain": http.StatusNoContent, "/api/v1/login": http.StatusRequestEntityTooLarge} {
		c := dialFrom(t, g.Server, "127.0.0.1", "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", defaultMaxBody+1))
		require.Equal(t, path, answeredOn(t, c), want)
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is still open", path)
		}
	}
}

func TestLargeBodiesAreBounded(t *testing.T) {
	t.Parallel()
	b := &bodies{timeout: bodyTimeout}
	from := func(addr string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 2*smallBody)))
		return r.WithContext(context.WithValue(r.Context(), requestKey{}, request{client: netip.MustParseAddr(addr)}))
	}
	for range mostLargeOfAddress {
		b.large.Enter(netip.MustParseAddr("203.0.113.7"), 0, 0)
	}
	for name, test := range map[string]struct {
		addr    string
		trusted bool
		refused bool
	}{
		"the address":          {"203.0.113.7", false, true},
		"an operator there":    {"203.0.113.7", true, false},
		"another address":      {"203.0.113.8", false, false},
		"the address, in IPv6": {"::ffff:203.0.113.8", false, false},
	} {
		r := from(test.addr)
		if err := b.first(httptest.NewRecorder(), r, defaultMaxBody, false, test.trusted); (err != nil) != test.refused {
			t.Errorf("%s: %v", name, err)
		} else if whole, _ := io.ReadAll(r.Body); err == nil && len(whole) != 2*smallBody {
			t.Errorf("%s: %d bytes arrived", name, len(whole))
		}
	}
	if large, small := b.large.Taken(), b.small.Taken(); large != mostLargeOfAddress || small != 0 {
		t.Errorf("%d large and %d small bodies are counted", large, small)
	}
}

// wire fails its test when bytes are sent before the place was given back.
type wire struct {
	*httptest.ResponseRecorder
	left *int
	t    *testing.T
}

func (w wire) Write(p []byte) (int, error) {
	if *w.left == 0 {
		w.t.Error("bytes were sent before the place was given back")
	}
	return w.ResponseRecorder.Write(p)
}

func (w wire) WriteHeader(status int) {
	if early := status < http.StatusOK; (*w.left == 0) != early {
		w.t.Errorf("status %d was sent, and the place was left %d times", status, *w.left)
	}
	w.ResponseRecorder.WriteHeader(status)
}

func TestAnAnswerLeavesItsPlaceFirst(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"a status": ok,
		"only text": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "tea")
			_, _ = io.WriteString(w, "pot")
		},
		"after hints": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			greets(w, r)
		},
		"nothing": func(http.ResponseWriter, *http.Request) {},
	} {
		left := 0
		a := &leaving{wire{httptest.NewRecorder(), &left, t}, func() { left++ }}
		h(a, nil)
		a.gone()
		require.Equal(t, name+": the place was left", left, 1)
	}
}
