package seckill

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/auth"
	"stampede/platform/bus"
	"stampede/platform/bus/bustest"
	"stampede/platform/httpx"
	"stampede/platform/ids"
	"stampede/platform/pg"
	"stampede/platform/pgtest"
	"stampede/seckill/seckillevent"
)

// yard is one shop's Postgres, Redis, NATS and books, with any number of
// instances on it.
type yard struct {
	t      testing.TB
	db     *pgxpool.Pool
	rdb    *redis.Client
	bus    *bus.Bus
	stock  *inventory.Service
	orders *testOrders
	events map[string]func(context.Context, bus.Msg) error // inventory's, by subject
	ids    *atomic.Int64
}

func newYard(t testing.TB) *yard {
	t.Helper()
	y := &yard{t: t, db: pgtest.DB(t), rdb: pgtest.Redis(t), bus: bustest.Open(t), orders: &testOrders{all: map[ids.ID]orderevent.Order{}}, ids: new(atomic.Int64)}
	y.stock = y.newStock()
	y.events = map[string]func(context.Context, bus.Msg) error{}
	for _, s := range y.stock.Subscriptions() {
		y.events[s.Filter] = s.Handle
	}
	return y
}

func (y *yard) newStock(change ...func(*inventory.Config)) *inventory.Service {
	cfg := inventory.DefaultConfig()
	cfg.PublishDeadline = 10 * time.Millisecond // what a Load waits for lanes, which are quick here
	for _, f := range change {
		f(&cfg)
	}
	stock, err := inventory.New(cfg, inventory.Deps{
		DB: y.db, Redis: y.rdb, Bus: y.bus, Holds: y.orders, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		y.t.Fatal(err)
	}
	return stock
}

// item puts an item on sale with so many units, open since a minute.
func (y *yard) item(units int32, change ...func(*Item)) *Item {
	y.t.Helper()
	now := time.Now().Truncate(time.Millisecond)
	it := &Item{
		ID: y.ids.Add(1), ActivityID: 1, SessionID: 1, SKU: "sku", Title: "A thing", Currency: "CNY", ListPrice: 200, SalePrice: 100,
		Total: units, UserLimit: 1, OpensAt: now.Add(-time.Minute), ClosesAt: now.Add(time.Hour), PayWindow: 15 * time.Minute, OnSale: true, Rebuy: true,
	}
	for _, f := range change {
		f(it)
	}
	err := pg.InTx(y.t.Context(), y.db, func(tx pgx.Tx) error {
		return y.stock.Create(y.t.Context(), tx, inventory.NewStock{
			Item: it.Stock(), Total: it.Total, Unlimited: it.Unlimited, UserLimit: it.UserLimit, Rebuy: it.Rebuy, OpensAt: it.OpensAt, ClosesAt: it.ClosesAt,
		})
	})
	if err != nil {
		y.t.Fatal(err)
	}
	y.load(it)
	return it
}

func (y *yard) load(it *Item) {
	y.t.Helper()
	if err := y.stock.Load(y.t.Context(), it.ID); err != nil {
		y.t.Fatal(err)
	}
}

// write runs an order writer in small until the returned function is called.
func (y *yard) write() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := y.bus.ConsumeGrants(ctx, func(ctx context.Context, batch []bus.Msg) {
			for _, m := range batch {
				y.settle(ctx, m)
			}
		}); err != nil && ctx.Err() == nil {
			y.t.Errorf("order writer: %v", err)
		}
	}()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-done }) }
	y.t.Cleanup(stop)
	return stop
}

// settleAll runs the order writer until there are so many orders and nothing is
// left to write.
func (y *yard) settleAll(orders int) {
	y.t.Helper()
	stop := y.write()
	pgtest.Eventually(y.t, 5*time.Second, func() bool {
		n, err := y.bus.GrantsBacklog(y.t.Context())
		return err == nil && n == 0 && y.orders.count() == orders
	}, "all grants written")
	stop()
}

func (y *yard) settle(ctx context.Context, m bus.Msg) {
	var b seckillevent.Batch
	if err := b.Decode(m.Data); err != nil {
		y.t.Errorf("grant message: %v", err)
		return
	}
	var nos []ids.ID
	units := int32(0)
	for _, g := range b.Grants {
		if _, twice, _ := y.orders.Get(ctx, g.No); !twice {
			units += g.Quantity
		}
		nos = append(nos, g.No)
	}
	y.move(ctx, y.stock.Deduct, b.ItemID, units)
	for _, g := range b.Grants {
		y.orders.create(&b, g)
	}
	item := inventory.Item{ID: b.ItemID, ActivityID: b.ActivityID, Shard: b.Shard, PerActivity: b.PerActivity}
	if err := y.stock.Persisted(ctx, item, b.Epoch, nos); err != nil {
		y.t.Errorf("mark persisted: %v", err)
	}
	if err := m.Ack(); err != nil {
		y.t.Errorf("ack: %v", err)
	}
}

func (y *yard) move(ctx context.Context, how func(context.Context, pgx.Tx, []inventory.Movement) error, item int64, units int32) {
	if units == 0 {
		return
	}
	err := pg.InTx(ctx, y.db, func(tx pgx.Tx) error {
		return how(ctx, tx, []inventory.Movement{{Key: inventory.Key{ItemID: item}, Quantity: units}})
	})
	if err != nil {
		y.t.Errorf("move %d units of item %d: %v", units, item, err)
	}
}

// close closes an order unpaid, which gives its units back.
func (y *yard) close(no ids.ID) {
	y.t.Helper()
	row, _, _ := y.orders.Get(y.t.Context(), no)
	y.move(y.t.Context(), y.stock.Return, row.ItemID, row.Quantity)
	y.end(no, orderevent.StatusClosed, orderevent.SubjectClosed)
}

// pay marks an order paid, which makes its units sold.
func (y *yard) pay(no ids.ID) {
	y.t.Helper()
	y.end(no, orderevent.StatusPaid, orderevent.SubjectPaid)
}

func (y *yard) end(no ids.ID, status, subject string) {
	y.t.Helper()
	data, err := json.Marshal(orderevent.Changed{Orders: []orderevent.Order{y.orders.set(no, status)}})
	if err != nil {
		y.t.Fatal(err)
	}
	if err := y.events[subject](y.t.Context(), bus.Msg{Subject: subject, Data: data}); err != nil {
		y.t.Fatal(err)
	}
}

// testOrders is the order module in small.
type testOrders struct {
	mu  sync.Mutex
	all map[ids.ID]orderevent.Order
	// twice counts numbers that a second message tried to create.
	twice int
}

func (o *testOrders) create(b *seckillevent.Batch, g seckillevent.Grant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.all[g.No]; ok {
		o.twice++
		return
	}
	o.all[g.No] = orderevent.Order{
		No: g.No, UserID: g.User, ItemID: b.ItemID, ActivityID: b.ActivityID, PerActivity: b.PerActivity, Epoch: b.Epoch, Quantity: g.Quantity,
		Status: orderevent.StatusPending, UpdatedAt: time.Now(),
	}
}

func (o *testOrders) set(no ids.ID, status string) orderevent.Order {
	o.mu.Lock()
	defer o.mu.Unlock()
	row := o.all[no]
	row.Status, row.UpdatedAt = status, time.Now()
	o.all[no] = row
	return row
}

func (o *testOrders) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}

func (o *testOrders) Known(_ context.Context, nos []ids.ID) (map[ids.ID]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := map[ids.ID]string{}
	for _, no := range nos {
		if row, ok := o.all[no]; ok {
			known[no] = row.Status
		}
	}
	return known, nil
}

func (o *testOrders) Get(_ context.Context, no ids.ID) (orderevent.Order, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	row, ok := o.all[no]
	return row, ok, nil
}

func (o *testOrders) Holds(_ context.Context, _ pgx.Tx, itemID int64) (live []inventory.Held, recent []inventory.Gone, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, row := range o.all {
		switch {
		case row.ItemID != itemID:
		case row.Status == orderevent.StatusPending || row.Status == orderevent.StatusPaid:
			live = append(live, inventory.Held{No: row.No, User: row.UserID, Quantity: row.Quantity, Paid: row.Status == orderevent.StatusPaid})
		default:
			recent = append(recent, inventory.Gone{No: row.No, Until: row.UpdatedAt.Add(4 * time.Minute)})
		}
	}
	return live, recent, nil
}

func (o *testOrders) Closed(_ context.Context, _ pgx.Tx, itemID int64) (closed []inventory.Closed, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, row := range o.all {
		if row.ItemID == itemID && row.Status == orderevent.StatusClosed {
			closed = append(closed, inventory.Closed{No: row.No, User: row.UserID})
		}
	}
	return closed, nil
}

// testClock is the time that the door believes in.
type testClock struct{ offset atomic.Int64 }

func (c *testClock) Now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())).UTC() }
func (c *testClock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// instance is one process of the shop.
type instance struct {
	*yard
	svc   *Service
	rush  *rush
	rt    *httpx.Router
	clock *testClock
}

// instance starts a process that sells the items.
func (y *yard) instance(items []*Item, change ...func(*RushConfig)) *instance {
	y.t.Helper()
	cfg := DefaultConfig()
	for _, f := range change {
		f(&cfg.Rush)
	}
	if err := cfg.Rush.Validate(); err != nil {
		y.t.Fatal(err)
	}
	i := &instance{yard: y, clock: new(testClock)}
	deps := Deps{
		DB: y.db, Redis: y.rdb, Bus: y.bus, Stock: y.newStock(), Clock: i.clock, Log: slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry(), Orders: y.orders, SigningKey: testKey,
	}
	i.svc = &Service{cfg: cfg, deps: deps, Catalogue: newCatalogue(cfg, deps)}
	var err error
	if i.rush, err = newRush(cfg, deps, i.svc.Catalogue); err != nil {
		y.t.Fatal(err)
	}
	i.svc.rush = i.rush
	i.show(items...)
	i.rt = httpx.NewRouter(auth.NewTokens(testKey, time.Now), deps.Log, "test", prometheus.NewRegistry())
	i.rush.routes(i.rt)
	y.t.Cleanup(i.rush.lanes.drain)
	return i
}

// work runs the worker that listens for returns and tends the lanes, until the
// returned function is called.
func (i *instance) work() (stop func()) {
	return i.run(i.rush.keepLanes)
}

func (i *instance) run(worker func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := worker(ctx); err != nil {
			i.t.Errorf("worker: %v", err)
		}
	}()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-done }) }
	i.t.Cleanup(stop)
	return stop
}

func (i *instance) show(items ...*Item) {
	byID := map[int64]*Item{}
	for _, it := range items {
		byID[it.ID] = it
	}
	i.svc.Catalogue.show(&picture{byID: byID, items: items})
}

// issue gets a path for a user.
func (i *instance) issue(user int64, it *Item, quantity int32) PathGrant {
	i.t.Helper()
	answer, err := i.tryIssue(user, it.ID, quantity)
	if err != nil {
		i.t.Fatal(err)
	}
	return answer.Body
}

func (i *instance) tryIssue(user, item int64, quantity int32) (*PathAnswer, error) {
	ctx := auth.Into(i.t.Context(), auth.Principal{UserID: user, Role: auth.Shopper})
	return i.rush.issue(ctx, &PathRequest{ID: strconv.FormatInt(item, 10), Body: &PathOrder{Quantity: quantity}})
}

// answer is what a rush came to.
type answer struct {
	Status     int
	Header     http.Header
	Code       string `json:"code"`
	Title      string `json:"title"`
	OrderNo    string `json:"order_no"`
	State      string `json:"status"`
	Position   int64  `json:"position"`
	PollAfter  int64  `json:"poll_after_ms"`
	RetryAfter string
}

// UnmarshalJSON reads tickets and problems, whose status differs in kind.
func (a *answer) UnmarshalJSON(data []byte) error {
	type plain answer
	raw := struct {
		*plain
		Status any `json:"status"`
	}{plain: (*plain)(a)}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	switch v := raw.Status.(type) {
	case string:
		a.State = v
	case float64:
		if int(v) != a.Status {
			return errors.New("the problem's status is not the answer's")
		}
	}
	return nil
}

// send rushes with a path, by the router that shoppers reach.
func (i *instance) send(path string) answer {
	return i.do(httptest.NewRequest(http.MethodPost, rushPrefix+path, nil))
}

func (i *instance) do(req *http.Request) answer {
	rec := httptest.NewRecorder()
	i.rt.ServeHTTP(rec, req)
	res := rec.Result()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		i.t.Error(err)
	}
	a := answer{Status: res.StatusCode, Header: res.Header, RetryAfter: res.Header.Get("Retry-After")}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &a); err != nil {
			i.t.Errorf("%d %s: %v", res.StatusCode, body, err)
		}
		if res.ContentLength != int64(len(body)) {
			i.t.Errorf("Content-Length %d for %d bytes", res.ContentLength, len(body))
		}
		if strings.Contains(res.Header.Get("Content-Type"), "problem") == (res.StatusCode == http.StatusAccepted) {
			i.t.Errorf("%d as %s", res.StatusCode, res.Header.Get("Content-Type"))
		}
	}
	return a
}

// buy gets a path and rushes with it.
func (i *instance) buy(user int64, it *Item) (PathGrant, answer) {
	i.t.Helper()
	p := i.issue(user, it, 1)
	return p, i.send(p.Path)
}

func (i *instance) state(it *Item) inventory.State {
	i.t.Helper()
	st, ok, err := i.stock.State(i.t.Context(), it.Stock())
	if err != nil || !ok {
		i.t.Fatalf("state of item %d: %v %v", it.ID, ok, err)
	}
	return st
}

func parse(t testing.TB, no string) ids.ID {
	t.Helper()
	id, err := ids.Parse(no)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
