package order

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/order/orderevent"
	"stampede/platform/auth"
	"stampede/platform/httpx"
	"stampede/platform/ids"
)

// line is a queue that a test fills.
type line struct {
	positions map[ids.ID]int64
	err       error
	asked     func()
}

func (l *line) Queued(_ context.Context, _ int64, no ids.ID) (position, itemID int64, ok bool, err error) {
	if l.asked != nil {
		l.asked()
	}
	position, ok = l.positions[no]
	return position, 1, ok, l.err
}

// paidOnce is one payment of every order.
type paidOnce struct{ no ids.ID }

func (p paidOnce) PaymentsOf(context.Context, ids.ID) ([]PaymentView, error) {
	return []PaymentView{{PaymentNo: p.no, Provider: "sandbox", Status: "captured", Amount: orderevent.Money{Amount: 9900, Currency: "CNY"}}}, nil
}

// edge is the module behind its routes.
type edge struct {
	*shop
	router *httpx.Router
	tokens *auth.Tokens
	line   *line
}

func setupEdge(t *testing.T, change ...func(*Config, *Deps)) *edge {
	t.Helper()
	s := setup(t, change...)
	tokens := auth.NewTokens([]byte(strings.Repeat("k", auth.MinKeyBytes)), time.Now)
	e := &edge{shop: s, tokens: tokens, line: &line{positions: map[ids.ID]int64{}}, router: httpx.NewRouter(tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())}
	s.Routes(e.router, e.line, paidOnce{no: ids.NewFor(1)})
	return e
}

func (e *edge) get(path string, user int64, role auth.Role) *httptest.ResponseRecorder {
	e.t.Helper()
	req := httptest.NewRequestWithContext(e.t.Context(), http.MethodGet, path, nil)
	if user != 0 {
		token, err := e.tokens.Mint(auth.Principal{UserID: user, Role: role}, time.Hour)
		if err != nil {
			e.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	rec := httptest.NewRecorder()
	e.router.ServeHTTP(rec, req)
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
		"nobody":                 {entered.String(), 0, 401, []string{`"code":"no-token"`}},
	} {
		rec := e.get("/api/v1/orders/"+c.no, c.user, auth.Shopper)
		if rec.Code != c.status {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
			continue
		}
		for _, part := range c.body {
			if !strings.Contains(rec.Body.String(), part) {
				t.Errorf("%s: no %s in %s", name, part, rec.Body)
			}
		}
		if rec.Code == 200 && rec.Header().Get("Cache-Control") != noStore {
			t.Errorf("%s: a proxy may keep it: %v", name, rec.Header())
		}
	}
}

func TestForeignNumbersCostNothing(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	e.line.asked = func() { t.Error("the line was asked") }
	foreign := ids.NewFor(2)
	if rec := e.get("/api/v1/orders/"+foreign.String(), 1, auth.Shopper); rec.Code != http.StatusNotFound {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if loads := counter(t, e.metrics.loads); loads != 0 {
		t.Errorf("Postgres was asked %.0f times", loads)
	}
}

func TestFollowingSaysNothingUntrue(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	m := grants(e.item(5), 1)
	no := m.Grants[0].No

	// Whoever cannot ask the line must not say "not in line".
	e.line.err = errors.New("redis is away")
	rec := e.get("/api/v1/orders/"+no.String(), 1, auth.Shopper)
	if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), `"code":"unknown"`) || rec.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v %s", rec.Code, rec.Header(), rec.Body)
	}
	// The order is written, and the cache has lost it, right when the line says
	// that the number has left it.
	e.line.err = nil
	e.line.asked = func() {
		e.line.asked = nil
		e.deliver(m)
		e.forget(t.Context(), no)
	}
	rec = e.get("/api/v1/orders/"+no.String(), 1, auth.Shopper)
	if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), "pending_payment") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	// A written order is told even if its user's mark is still in the line, and
	// whoever is next in line is told so.
	e.forget(t.Context(), no)
	next := ids.NewFor(1)
	e.line.positions[no], e.line.positions[next] = 0, 0
	rec = e.get("/api/v1/orders/"+no.String(), 1, auth.Shopper)
	if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), "pending_payment") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	rec = e.get("/api/v1/orders/"+next.String(), 1, auth.Shopper)
	if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"position":0`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	// A written order is told even if the line cannot be asked.
	e.line.err = errors.New("redis is away")
	e.forget(t.Context(), no)
	if rec = e.get("/api/v1/orders/"+no.String(), 1, auth.Shopper); rec.Code != http.StatusOK {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	// Postgres away and nothing cached: unknown, not an internal error.
	e.forget(t.Context(), no)
	e.local.Clear()
	e.exec(`ALTER TABLE orders.orders RENAME TO away`)
	if rec = e.get("/api/v1/orders/"+no.String(), 1, auth.Shopper); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestListsPageByCursor(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	b, other := e.item(100), e.item(100)
	var mine []string
	for range 5 {
		m := e.placed(b, 1)
		mine = append([]string{m.Grants[0].No.String()}, mine...)
		if _, err := e.Claim(t.Context(), m.Grants[0].No, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := e.CloseClaimed(t.Context(), numbers(m), orderevent.ReasonCanceled); err != nil {
			t.Fatal(err)
		}
	}
	e.placed(b, 2, 3)
	e.placed(other, 3)
	pages := func(path string, user int64, role auth.Role) (nos []string, requests int) {
		t.Helper()
		for cursor := ""; ; requests++ {
			rec := e.get(path+"&cursor="+cursor, user, role)
			var page struct {
				Data []struct {
					OrderNo string `json:"order_no"`
				}
				NextCursor *string `json:"next_cursor"` // there on every page
			}
			decode(t, rec.Body.Bytes(), &page)
			if rec.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
			}
			if page.NextCursor == nil || page.Data == nil {
				t.Fatalf("%s: no page: %s", path, rec.Body)
			}
			for _, o := range page.Data {
				nos = append(nos, o.OrderNo)
			}
			if cursor = *page.NextCursor; cursor == "" {
				return nos, requests + 1
			}
		}
	}
	got, requests := pages("/api/v1/orders?limit=2", 1, auth.Shopper)
	requireEqual(t, "own orders", got, mine)
	requireEqual(t, "requests", requests, 3)
	got, requests = pages("/api/v1/admin/orders?user_id=1&limit=3", 99, auth.Viewer)
	requireEqual(t, "one user's orders", got, mine)
	requireEqual(t, "pages of them", requests, 2)
	for filter, want := range map[string]int{
		"": 8, "&user_id=1": 5, "&item_id=1": 7, "&item_id=2": 1, "&activity_id=102": 1, "&status=closed": 5,
		"&status=pending_payment&user_id=3": 2, "&user_id=3&item_id=2": 1, "&user_id=77": 0,
	} {
		if got, _ := pages("/api/v1/admin/orders?limit=3"+filter, 99, auth.Viewer); len(got) != want {
			t.Errorf("filter %q gives %d orders, want %d", filter, len(got), want)
		}
	}
	for path, want := range map[string]int{
		"/api/v1/orders?cursor=zzz": 422, "/api/v1/orders?limit=0": 422, "/api/v1/orders?limit=101": 422,
		"/api/v1/admin/orders?status=lost": 422, "/api/v1/admin/orders?item_id=-1": 422,
		"/api/v1/admin/orders?cursor=zzz": 422, "/api/v1/admin/orders?limit=0": 422, "/api/v1/admin/orders?limit=101": 422,
	} {
		if rec := e.get(path, 99, auth.Viewer); rec.Code != want || !strings.Contains(rec.Body.String(), `"code":"invalid"`) {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
	if rec := e.get("/api/v1/admin/orders", 1, auth.Shopper); rec.Code != http.StatusForbidden {
		t.Errorf("a shopper reads all orders: %d", rec.Code)
	}
}

// TestListsAreDocumentedWithTheirPages: huma leaves out, without a word, what an
// input embeds and does not export.
func TestListsAreDocumentedWithTheirPages(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	for _, path := range []string{"/api/v1/orders", "/api/v1/admin/orders"} {
		var names []string
		for _, p := range e.router.API.Huma.OpenAPI().Paths[path].Get.Parameters {
			names = append(names, p.Name)
		}
		if !slices.Contains(names, "limit") || !slices.Contains(names, "cursor") {
			t.Errorf("GET %s is documented with %v only", path, names)
		}
	}
}

func TestAdminDetail(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	m := e.placed(e.item(1), 1, 2)
	if !e.pay(m.Grants[0].No) {
		t.Fatal("not paid")
	}
	var doc struct {
		Order struct {
			Status string
			UserID string `json:"user_id"`
		}
		Payments []PaymentView
		History  []statusChange
	}
	decode(t, e.get("/api/v1/admin/orders/"+m.Grants[0].No.String(), 9, auth.Viewer).Body.Bytes(), &doc)
	requireEqual(t, "order", []string{doc.Order.Status, doc.Order.UserID}, []string{"paid", "1"})
	requireEqual(t, "payments", len(doc.Payments), 1)
	requireEqual(t, "history", []string{doc.History[0].Status, doc.History[1].Status}, []string{"pending_payment", "paid"})
	if !strings.HasPrefix(doc.History[1].Actor, "payment ") || !strings.HasSuffix(doc.History[1].At, "Z") {
		t.Errorf("%+v", doc.History[1])
	}
	doc.History = nil
	decode(t, e.get("/api/v1/admin/orders/"+m.Grants[1].No.String(), 9, auth.Viewer).Body.Bytes(), &doc)
	requireEqual(t, "history of a refusal", []string{doc.History[0].Status, doc.History[0].Reason}, []string{"refused", "shortfall"})
	if rec := e.get("/api/v1/admin/orders/"+ids.New().String(), 9, auth.Viewer); rec.Code != http.StatusNotFound {
		t.Errorf("%d", rec.Code)
	}
	if rec := e.get("/api/v1/admin/orders/"+m.Grants[0].No.String(), 1, auth.Shopper); rec.Code != http.StatusForbidden {
		t.Errorf("%d", rec.Code)
	}
}

// queryCounter counts what a pool sends to Postgres.
type queryCounter struct{ queries atomic.Int64 }

func (c *queryCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}

func (c *queryCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestPollsCostPostgresNothing(t *testing.T) {
	t.Parallel()
	count := new(queryCounter)
	e := setupEdge(t, func(_ *Config, d *Deps) {
		cfg := d.DB.Config().Copy()
		cfg.ConnConfig.Tracer = count
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		d.DB = pool
	})
	var users []int64
	for user := range int64(100) {
		users = append(users, user+1)
	}
	m := e.placed(e.item(90), users...) // ten of them are refused
	if count.queries.Load() == 0 {
		t.Fatal("the counter sees nothing")
	}
	for _, g := range m.Grants[:20] {
		if e.statuses(g.No)[0] == orderevent.StatusPending && !e.pay(g.No) {
			t.Fatal("not paid")
		}
	}
	paths, tokens := make([]string, 100), make([]string, 100)
	for i, g := range m.Grants {
		paths[i] = "/api/v1/orders/" + g.No.String()
		token, err := e.tokens.Mint(auth.Principal{UserID: g.User, Role: auth.Shopper}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		tokens[i] = "Bearer " + token
	}
	before := count.queries.Load()
	for i := range 10_000 {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, paths[i%100], nil)
		req.Header.Set("Authorization", tokens[i%100])
		rec := httptest.NewRecorder()
		e.router.ServeHTTP(rec, req)
		if rec.Code != http.StatusOK {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
	}
	if n := count.queries.Load() - before; n != 0 {
		t.Errorf("10,000 polls of 100 orders cost %d queries", n)
	}
}

func TestListsLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	for range cap(e.reading) {
		e.reading <- struct{}{} // as many readers as may be
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := e.enterReading(gone); !errors.Is(err, errBusy) {
		t.Errorf("one reader too many: %v", err)
	}
	<-e.reading
	done, err := e.enterReading(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done()
	if most := int(e.db.Config().MaxConns); cap(e.reading) >= most {
		t.Errorf("%d readers on %d connections", cap(e.reading), most)
	}
}

func TestQueuedDocumentIsWhatTheRushAnswers(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	no := ids.NewFor(1)
	e.line.positions[no] = 3
	want, err := json.Marshal(orderevent.QueuedView(no, 3))
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "body", strings.TrimSpace(e.get("/api/v1/orders/"+no.String(), 1, auth.Shopper).Body.String()), string(want))
}
