package risk

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/order/orderevent"
	"stampede/platform/base/config"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/rush"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

var (
	testKey    = []byte("0123456789abcdef0123456789abcdef")
	testTokens = auth.NewTokens(testKey, time.Now)
)

// onSale is a fake catalogue.
type onSale []*catalogue.Item

func (s onSale) Items() []*catalogue.Item { return s }
func (onSale) Ready() bool                { return true }

// openOrders is a fake order module.
type openOrders map[int64]int64

func (o openOrders) OpenUnpaid(_ context.Context, atLeast, most int) (map[int64]int64, error) {
	open := map[int64]int64{}
	for user, n := range o {
		if n >= int64(atLeast) && len(open) < most {
			open[user] = n
		}
	}
	return open, nil
}

// bundle is one shop with any number of instances.
type bundle struct {
	t    testing.TB
	db   *pgxpool.Pool
	bus  *bus.Bus
	open openOrders
	sale onSale
}

func setup(t testing.TB) *bundle {
	t.Helper()
	y := &bundle{t: t, db: pgtest.DB(t), bus: bustest.Open(t), open: openOrders{}}
	y.exec(`DELETE FROM risk.rules`) // tests bring their own
	return y
}

// activity plans an activity that runs for another hour, with one item.
func (y *bundle) activity(name string, exclusive bool) *catalogue.Item {
	y.t.Helper()
	now := time.Now()
	item := &catalogue.Item{
		ID: int64(len(y.sale)) + 1, SessionID: 1, OnePerUser: exclusive, OnSale: true, PayWindow: 15 * time.Minute,
		OpensAt: now.Add(-time.Minute), ClosesAt: now.Add(time.Hour), UserLimit: 1,
	}
	item.ActivityID = pgtest.Read[int64](y.t, y.db, `INSERT INTO seckill.activities (name, starts_at, ends_at) VALUES ($1, $2, $3) RETURNING id`,
		name, item.OpensAt, item.ClosesAt)
	y.sale = append(y.sale, item)
	return item
}

// instance is one process of the shop.
type instance struct {
	*bundle
	*Service
	clock *seckilltest.Clock
	rt    *httpx.Router // created by the first call
}

func (y *bundle) instance(change ...func(*Settings, *Deps)) *instance {
	y.t.Helper()
	i := &instance{bundle: y, clock: new(seckilltest.Clock)}
	cfg := config.Defaults[Settings]()
	cfg.UnpaidPause = 0 // tests of rules close orders
	deps := Deps{
		DB: y.db, Bus: y.bus, Clock: i.clock, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Items: y.sale, Orders: y.open, SigningKey: testKey, Keep: 90 * 24 * time.Hour,
	}
	for _, f := range change {
		f(&cfg, &deps)
	}
	i.Service = New(cfg, deps)
	i.refresh()
	return i
}

func (i *instance) refresh() {
	i.t.Helper()
	require.NoError(i.t, i.Refresh(i.t.Context()))
}

// work runs the instance's workers until the returned function is called.
func (i *instance) work() (stop func()) {
	i.t.Helper()
	var stops []func()
	for _, w := range i.Workers() {
		stops = append(stops, pgtest.Work(i.t, w.Run))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// applicant requests a path as the seckill module would.
func (i *instance) applicant(user int64, item *catalogue.Item) *rush.Applicant {
	return &rush.Applicant{
		User: user, Item: item, Quantity: 1, OrderNo: ids.NewFor(user), Now: i.clock.Now(), UsableFrom: item.OpensAt, PayWithin: item.PayWindow,
	}
}

// asks runs the participation check for a user.
func (i *instance) asks(user int64, item *catalogue.Item) (ids.ID, error) {
	i.t.Helper()
	a := i.applicant(user, item)
	return a.OrderNo, i.Participate(i.t.Context(), a)
}

// tell delivers an order event as the bus would.
func (i *instance) tell(subject string, orders ...orderevent.Order) {
	i.t.Helper()
	payloads, err := orderevent.Pack(orders)
	require.NoError(i.t, err)
	for _, payload := range payloads {
		require.NoError(i.t, i.Subscriptions()[0].Handle(i.t.Context(), bus.Msg{ID: ids.New(), Subject: subject, Data: payload}))
	}
}

// order is an order in the form that events carry.
func order(user int64, item *catalogue.Item, no ids.ID, status string, version int32) orderevent.Order {
	at := time.Now().UTC()
	return orderevent.Order{
		No: no, UserID: user, ItemID: item.ID, ActivityID: item.ActivityID, SessionID: 1, Quantity: 1, UnitPrice: 100, Currency: "CNY",
		Title: "x", Status: status, Version: version, PayDeadline: at, CreatedAt: at, UpdatedAt: at,
	}
}

// unpaid closes so many orders of a user unpaid.
func (i *instance) unpaid(user int64, item *catalogue.Item, n int) {
	i.t.Helper()
	var orders []orderevent.Order
	for range n {
		o := order(user, item, ids.NewFor(user), orderevent.StatusClosed, 2)
		o.Reason = orderevent.ReasonTimeout
		orders = append(orders, o)
	}
	i.tell(orderevent.SubjectClosed, orders...)
}

func (y *bundle) exec(query string, args ...any) {
	y.t.Helper()
	pgtest.Exec(y.t, y.db, query, args...)
}

func (y *bundle) count(query string, args ...any) int {
	y.t.Helper()
	return pgtest.Read[int](y.t, y.db, query, args...)
}

// call calls the instance's operator routes; header alternates names and values.
func (i *instance) call(role auth.Role, method, path, body string, header ...string) (int, map[string]any) {
	i.t.Helper()
	if i.rt == nil {
		i.rt = httpx.NewRouter(testTokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
		i.Routes(i.rt)
	}
	return httpxtest.As(i.t, i.rt, testTokens, role, method, "/api/v1/admin/risk"+path, body, header...)
}

// must is call where the answer must have a status.
func (i *instance) must(status int, role auth.Role, method, path, body string) map[string]any {
	i.t.Helper()
	code, doc := i.call(role, method, path, body)
	require.Equal(i.t, fmt.Sprint(method, " ", path, " ", body, ": ", doc), code, status)
	return doc
}

// addRule creates a rule over HTTP and returns its id.
func (i *instance) addRule(body string) string {
	i.t.Helper()
	return i.must(http.StatusCreated, auth.Operator, http.MethodPost, "/rules", body)["id"].(string)
}

// requireFault requires the code of a refusal, "" for none.
func requireFault(t testing.TB, what string, err error, code string) {
	t.Helper()
	got := ""
	if err != nil {
		got = fault.From(err).Code
	}
	if got != code {
		t.Fatalf("%s: %q (%v), want %q", what, got, err, code)
	}
}

func decimal(n int64) string { return httpx.FormatID(n) }
