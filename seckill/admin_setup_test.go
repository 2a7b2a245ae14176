package seckill

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/rush"
	"stampede/seckill/seckillevent"
)

// bundle is a test shop whose activities operators plan.
type bundle struct{ *seckilltest.Bundle }

func setup(t testing.TB) *bundle { t.Helper(); return &bundle{seckilltest.New(t)} }

// instance is one complete instance of the module with an operator using it.
type instance struct {
	*bundle
	svc    *Service
	rt     *httpx.Router
	clock  *seckilltest.Clock
	tokens map[auth.Role]string
}

type silentWaker struct{}

func (silentWaker) Wake() {}

func (y *bundle) instance(change ...func(*Config, *Deps)) *instance {
	y.T.Helper()
	d := &instance{bundle: y, clock: new(seckilltest.Clock), tokens: map[auth.Role]string{}}
	cfg := DefaultConfig()
	cfg.BrowseCacheBytes, cfg.Rush.NumberBytes, cfg.CanPay = 512<<10, 512<<10, true
	deps := Deps{
		DB: y.DB, Redis: y.Redis, Bus: y.Bus, Stock: y.NewStock(), Outbox: silentWaker{}, Clock: d.clock,
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Orders: y.Orders, SigningKey: seckilltest.Key,
	}
	for _, f := range change {
		f(&cfg, &deps)
	}
	var err error
	if deps.Catalogue, err = NewCatalogue(cfg, deps.DB, deps.Log, deps.Metrics); err != nil {
		y.T.Fatal(err)
	}
	deps.Queue = rush.NewQueue(cfg.Rush, deps.Catalogue, deps.Stock, deps.Bus, deps.Clock)
	if d.svc, err = New(cfg, deps); err != nil {
		y.T.Fatal(err)
	}
	tokens := auth.NewTokens(seckilltest.Key, time.Now)
	d.rt = httpx.NewRouter(tokens, deps.Log, "test", prometheus.NewRegistry())
	d.svc.Routes(d.rt)
	for user, role := range []auth.Role{auth.Shopper, auth.Viewer, auth.Operator} {
		if d.tokens[role], err = tokens.Mint(auth.Principal{UserID: int64(user) + 70, Role: role}, time.Hour); err != nil {
			y.T.Fatal(err)
		}
	}
	return d
}

// reply is an answer with its body read as JSON.
type reply struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any
}

func (r reply) text(field string) string { s, _ := r.body[field].(string); return s }

// want requires a status and, unless it is empty, a problem's code; what names the
// answer.
func (r reply) want(t testing.TB, what string, status int, code string) {
	t.Helper()
	if r.status != status || code != "" && r.text("code") != code {
		t.Fatalf("%s: %d %s, want %d %s", what, r.status, r.raw, status, code)
	}
}

// id reads a field that holds an id.
func (r reply) id(t testing.TB, path ...any) string {
	t.Helper()
	var v any = r.body
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	s, ok := v.(string)
	if !ok {
		t.Fatalf("no id at %v in %s", path, r.raw)
	}
	return s
}

// as calls the API in a role; body is JSON text or anything to encode.
func (d *instance) as(role auth.Role, method, path string, body any, headers ...string) reply {
	d.T.Helper()
	a := httpxtest.Ask(d.T, d.rt, d.tokens[role], method, path, body, headers...)
	return reply{a.Status, a.Header, a.Raw, a.Doc}
}

// do calls the API as an operator and requires a status.
func (d *instance) do(want int, method, path string, body any, headers ...string) reply {
	d.T.Helper()
	r := d.as(auth.Operator, method, path, body, headers...)
	if r.status != want {
		d.T.Fatalf("%s %s: %d, want %d: %s", method, path, r.status, want, r.raw)
	}
	return r
}

// sale is an activity with one session and one item.
type sale struct{ activity, session, item string }

// draft creates a sale that opens after opensIn and lasts an hour.
func (d *instance) draft(opensIn time.Duration, change ...func(activity, session, item map[string]any)) sale {
	d.T.Helper()
	now := time.Now().UTC()
	item := map[string]any{
		"sku": "phone", "title": "A phone", "list_price": map[string]any{"amount": 20000, "currency": "CNY"},
		"sale_price": map[string]any{"amount": 9900, "currency": "CNY"}, "stock": 10, "image_url": "https://127.0.0.1/p.png", // refused before it is dialed
	}
	session := map[string]any{"name": "First", "opens_at": now.Add(opensIn), "closes_at": now.Add(opensIn + time.Hour)}
	activity := map[string]any{"name": "Sale", "starts_at": now.Add(opensIn - time.Hour), "ends_at": now.Add(opensIn + 2*time.Hour)}
	for _, f := range change {
		f(activity, session, item)
	}
	more, _ := session["items"].([]any)
	session["items"] = append([]any{item}, more...)
	activity["sessions"] = []any{session}
	r := d.do(http.StatusCreated, http.MethodPost, "/api/v1/admin/activities", activity)
	return sale{r.id(d.T, "id"), r.id(d.T, "sessions", 0, "id"), r.id(d.T, "sessions", 0, "items", 0, "id")}
}

// publish creates and publishes a sale.
func (d *instance) publish(opensIn time.Duration, change ...func(activity, session, item map[string]any)) sale {
	d.T.Helper()
	s := d.draft(opensIn, change...)
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/publish", nil)
	return s
}

// sql runs a statement for what the API cannot do, such as moving time.
func (d *instance) sql(statement string, args ...any) {
	d.T.Helper()
	if _, err := d.DB.Exec(d.T.Context(), statement, args...); err != nil {
		d.T.Fatal(err)
	}
}

// number reads one number from the database.
func (d *instance) number(query string, args ...any) int64 {
	d.T.Helper()
	var n int64
	require.NoError(d.T, d.DB.QueryRow(d.T.Context(), query, args...).Scan(&n))
	return n
}

// trace is what an action recorded: audit entries and events.
type trace struct {
	actions []string
	events  int64
}

// trace returns the whole audit log, newest first, and the number of change
// events.
func (d *instance) trace() (actions []audit.Entry, events int64) {
	d.T.Helper()
	actions, err := audit.List(d.T.Context(), d.DB, audit.Filter{})
	require.NoError(d.T, err)
	return actions, d.number(`SELECT count(*) FROM platform.outbox WHERE subject = $1`, seckillevent.SubjectChanged)
}

// traced runs fn and returns what it recorded, oldest action first.
func (d *instance) traced(fn func()) trace {
	d.T.Helper()
	before, events := d.trace()
	fn()
	after, now := d.trace()
	var tr trace
	for i := len(after) - len(before) - 1; i >= 0; i-- {
		tr.actions = append(tr.actions, after[i].Action)
	}
	tr.events = now - events
	return tr
}

func (tr trace) String() string { return fmt.Sprintf("%v and %d events", tr.actions, tr.events) }

// deliver passes the events in the outbox to the module's shared subscription,
// as the relay and the bus would.
func (d *instance) deliver() {
	d.T.Helper()
	rows, err := d.DB.Query(d.T.Context(), `SELECT id, payload FROM platform.outbox WHERE subject = $1 AND sent_at IS NULL`, seckillevent.SubjectChanged)
	require.NoError(d.T, err)
	defer rows.Close()
	for rows.Next() {
		var id ids.ID
		var payload []byte
		require.NoError(d.T, rows.Scan(&id, &payload))
		if err := d.svc.changeSubscription().Handle(d.T.Context(), bus.Msg{ID: id, Subject: seckillevent.SubjectChanged, Data: payload}); err != nil {
			d.T.Fatal(err)
		}
	}
	require.NoError(d.T, rows.Err())
}

// eventually waits for another goroutine's work.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	pgtest.Eventually(t, 30*time.Second, cond, what)
}

// forgetBrowse makes the browse answers cached by this instance expire.
func (d *instance) forgetBrowse() { d.clock.Advance(2 * time.Second) }

// counter counts the statements of a pool.
type counter struct{ n atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted is a second pool on the same database that counts its statements.
func (y *bundle) counted() (*pgxpool.Pool, *counter) {
	y.T.Helper()
	cfg, c := y.DB.Config(), new(counter)
	cfg.ConnConfig.Tracer = c
	pool, err := pgxpool.NewWithConfig(y.T.Context(), cfg)
	require.NoError(y.T, err)
	y.T.Cleanup(pool.Close)
	return pool, c
}

// raw gets an answer that is no JSON.
func (d *instance) raw(path string, headers ...string) string {
	d.T.Helper()
	return string(d.as(auth.Viewer, http.MethodGet, path, nil, headers...).raw)
}
