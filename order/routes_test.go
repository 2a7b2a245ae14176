package order

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/order/coupon"
	"stampede/order/search"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// line is a queue that a test fills.
type line struct {
	positions map[ids.ID]int64
	err       error
	asked     func()
	hangs     bool
}

func (l *line) Queued(ctx context.Context, _ int64, no ids.ID) (position, itemID int64, ok bool, err error) {
	if l.asked != nil {
		l.asked()
	}
	if l.hangs {
		<-ctx.Done()
		return 0, 0, false, ctx.Err()
	}
	position, ok = l.positions[no]
	return position, 1, ok, l.err
}

// edge is the module behind its routes.
type edge struct {
	*bundle
	router *httpx.Router
	search *httpx.Router
	tokens *auth.Tokens
	line   *line
	sales  *sales
}

// sales stubs seckill's part: what was on sale, by the filter in use.
type sales struct {
	coupon.Reservations // what no test here asks
	items               map[int64]seckillevent.Sale
	known               map[string]bool
	opens, closes       time.Time
}

func (s *sales) WhenOnSale(_ context.Context, item, session, activity *int64) (opens, closes time.Time, known bool, err error) {
	for name, id := range map[string]*int64{"item": item, "session": session, "activity": activity} {
		if id != nil && !s.known[name+" "+strconv.FormatInt(*id, 10)] {
			return opens, closes, false, nil
		}
	}
	return s.opens, s.closes, true, nil
}

func (s *sales) SaleOf(_ context.Context, item int64) (seckillevent.Sale, error) {
	return s.items[item], nil
}

func (s *sales) ItemsOfSKU(_ context.Context, sku string, _ int) (items []int64, opens, closes time.Time, err error) {
	for id, sale := range s.items {
		if sale.SKU == sku {
			items = append(items, id)
		}
	}
	return items, s.opens, s.closes, nil
}

func setupEdge(t *testing.T, change ...func(*Config, *Deps)) *edge {
	t.Helper()
	queue, plan := &line{positions: map[ids.ID]int64{}}, &sales{}
	s := setup(t, append([]func(*Config, *Deps){func(_ *Config, d *Deps) { d.Queue, d.Plan = queue, plan }}, change...)...)
	tokens := auth.NewTokens([]byte(strings.Repeat("k", auth.MinKeyBytes)), time.Now)
	e := &edge{bundle: s, tokens: tokens, line: queue, sales: plan, router: httpx.NewRouter(tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())}
	s.Routes(e.router)
	e.searching(nil, nil)
	return e
}

// searching has the operators' search on a router of its own.
func (e *edge) searching(accounts search.Phones, payments search.Payments) {
	e.search = httpx.NewRouter(e.tokens, e.deps.Log, "test", prometheus.NewRegistry())
	search.New(search.Deps{
		DB: e.deps.DB, Accounts: accounts, Payments: payments, Plan: e.sales, Log: e.deps.Log, Enter: e.EnterReading, Zone: time.FixedZone("shop", 8*3600),
	}).Routes(e.search)
}

func (e *edge) get(path string, user int64, role auth.Role) *httptest.ResponseRecorder {
	e.t.Helper()
	req := httptest.NewRequestWithContext(e.t.Context(), http.MethodGet, path, nil)
	if user != 0 {
		token := httpxtest.Token(e.t, e.tokens, auth.Principal{UserID: user, Role: role})
		req.Header.Set("Authorization", "Bearer "+token)
	}
	rec := httptest.NewRecorder()
	rt := e.router
	if strings.HasPrefix(path, "/api/v1/admin/orders") {
		rt = e.search
	}
	rt.ServeHTTP(rec, req)
	return rec
}

// follow polls a number as a shopper and requires the answer's status and the
// parts that its body has to contain.
func (e *edge) follow(name, no string, user int64, status int, parts ...string) *httptest.ResponseRecorder {
	e.t.Helper()
	rec := e.get("/api/v1/orders/"+no, user, auth.Shopper)
	if rec.Code != status {
		e.t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		return rec
	}
	for _, part := range parts {
		if !strings.Contains(rec.Body.String(), part) {
			e.t.Errorf("%s: no %s in %s", name, part, rec.Body)
		}
	}
	return rec
}

func TestFollowingANumber(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	b := e.item(1)
	m := grants(b, 1, 2)
	waiting, entered := ids.NewFor(1), m.Grants[0].No
	e.line.positions[waiting] = 2000
	e.deliver(m)
	foreign := m.Grants[1].No // refused, and user 2's
	sharing := int64(3)       // a user in the bucket of user 1's number
	for ids.Bucket(sharing) != entered.Bucket() {
		sharing++
	}
	for name, c := range map[string]struct {
		no     string
		user   int64
		status int
		body   []string
	}{
		"queued":                 {waiting.String(), 1, 200, []string{`"status":"queued"`, `"position":2000`, `"poll_after_ms":400`}},
		"ordered":                {entered.String(), 1, 200, []string{`"status":"pending_payment"`, `"amount":{"amount":9900,"currency":"CNY"}`, `"version":1`, `"item_id":"1"`, `"session_id":"7"`}},
		"refused":                {foreign.String(), 2, 200, []string{`"status":"refused"`, `"reason":"shortfall"`}},
		"never rushed":           {ids.NewFor(1).String(), 1, 404, []string{`"code":"not-entered"`}},
		"another user's":         {foreign.String(), 1, 404, []string{`"code":"not-found"`}},
		"another's, same bucket": {entered.String(), sharing, 404, []string{`"code":"not-found"`}},
		"no number":              {"xyz", 1, 404, []string{`"code":"not-found"`}},
		"no token":               {entered.String(), 0, 401, []string{`"code":"no-token"`}},
	} {
		rec := e.follow(name, c.no, c.user, c.status, c.body...)
		if rec.Code == 200 && rec.Header().Get("Cache-Control") != httpx.NoStore {
			t.Errorf("%s: a proxy may cache it: %v", name, rec.Header())
		}
	}
}

func TestFollowingNeverReturnsFalseState(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	m := grants(e.item(5), 1)
	no := m.Grants[0].No

	// While the line cannot be read, "not in line" must not be the answer.
	e.line.err = errors.New("redis is down")
	rec := e.follow("the line is down", no.String(), 1, http.StatusServiceUnavailable, `"code":"unknown"`)
	require.Equal(t, "retry after", rec.Header().Get("Retry-After"), "1")
	// The order is written, and the cache has dropped it, just when the line
	// reports that the number has left it.
	e.line.err = nil
	e.line.asked = func() {
		e.line.asked = nil
		e.deliver(m)
		e.forget(t.Context(), no)
	}
	e.follow("it left the line meanwhile", no.String(), 1, http.StatusOK, "pending_payment")
	// A written order is returned even if its user's mark is still in the line,
	// and the next in line reads position 0.
	e.forget(t.Context(), no)
	next := ids.NewFor(1)
	e.line.positions[no], e.line.positions[next] = 0, 0
	e.follow("written, its mark is left", no.String(), 1, http.StatusOK, "pending_payment")
	e.follow("next in line", next.String(), 1, http.StatusOK, `"position":0`)
	// A written order is returned even if the line cannot be read.
	e.line.err = errors.New("redis is down")
	e.forget(t.Context(), no)
	e.follow("written, the line is down", no.String(), 1, http.StatusOK)
	// Postgres down and nothing cached: unknown, not an internal error.
	e.forget(t.Context(), no)
	e.local.Clear()
	e.exec(`ALTER TABLE orders.orders RENAME TO away`)
	e.follow("everything is down", no.String(), 1, http.StatusServiceUnavailable)
}
