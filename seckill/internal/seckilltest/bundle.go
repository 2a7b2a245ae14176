// Package seckilltest is the fixture of seckill's tests: a shop's real Postgres,
// Redis and NATS with inventory's books, a minimal order module and order writer,
// a clock that can be moved, and a catalogue that the test fills.
package seckilltest

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/queue"
)

// Key is the signing key of every instance.
var Key = []byte("0123456789abcdef0123456789abcdef")

// Bundle is one shop's Postgres, Redis, NATS and books, with any number of
// instances on it.
type Bundle struct {
	T      testing.TB
	DB     *pgxpool.Pool
	Redis  *redis.Client
	Bus    *bus.Bus
	Stock  *inventory.Service
	Orders *Orders
	events map[string]func(context.Context, bus.Msg) error // inventory's, by subject
	last   *lastQueue
	ids    *atomic.Int64
}

// New opens a shop for one test, whose stock may be set up differently, and closes it with the test.
func New(t testing.TB, stock ...func(*inventory.Config)) *Bundle {
	t.Helper()
	y := &Bundle{T: t, DB: pgtest.DB(t), Redis: pgtest.Redis(t), Bus: bustest.Open(t), Orders: newOrders(), last: new(lastQueue), ids: new(atomic.Int64)}
	y.NewQueue(NewListing(t).Catalogue, prometheus.NewRegistry())
	y.Stock = y.NewStock(stock...)
	y.events = map[string]func(context.Context, bus.Msg) error{}
	for _, s := range y.Stock.Subscriptions() {
		y.events[s.Filter] = s.Handle
	}
	for _, w := range y.Stock.Workers() {
		if w.Name == "inventory-keeper" {
			y.Run(w.Run)
		}
	}
	return y
}

// In is the same shop for a subtest.
func (y *Bundle) In(t testing.TB) *Bundle {
	t.Helper()
	part := *y
	part.T = t
	return &part
}

// NewStock is the inventory service of one more process.
func (y *Bundle) NewStock(change ...func(*inventory.Config)) *inventory.Service {
	cfg := inventory.DefaultConfig()
	cfg.PublishDeadline = 10 * time.Millisecond // how long a Load waits for lanes, which are quick here
	for _, f := range change {
		f(&cfg)
	}
	return inventory.New(cfg, inventory.Deps{
		DB: y.DB, Redis: y.Redis, Bus: y.Bus, Grants: y.last, Holds: y.Orders, Books: y.Orders, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
}

// NewQueue is the queue of grants of one more process.
func (y *Bundle) NewQueue(items *catalogue.Catalogue, metrics prometheus.Registerer) *queue.Queue {
	q := queue.New(y.Bus, items, slog.New(slog.DiscardHandler), metrics)
	y.last.Store(q)
	return q
}

// Queue is the queue of the instance that was started last.
func (y *Bundle) Queue() *queue.Queue { return y.last.Load() }

// lastQueue is the queue of the instance that was started last.
type lastQueue struct{ atomic.Pointer[queue.Queue] }

func (l *lastQueue) State(ctx context.Context) (bus.QueueState, error) { return l.Load().State(ctx) }

func (l *lastQueue) Done(ctx context.Context, itemID int64, upTo uint64) (bool, error) {
	return l.Load().Done(ctx, itemID, upTo)
}

func (l *lastQueue) Republish(ctx context.Context, itemID int64, holds []inventory.StaleHold) error {
	return l.Load().Republish(ctx, itemID, holds)
}

// Item puts an item on sale with so many units, open since a minute ago, that a user may
// buy again after an unpaid order.
func (y *Bundle) Item(units int32, change ...func(*catalogue.Item)) *catalogue.Item {
	y.T.Helper()
	now := time.Now().Truncate(time.Millisecond)
	it := &catalogue.Item{
		ID: y.ids.Add(1), ActivityID: 1, SessionID: 1, Title: "A thing", Currency: "CNY", SalePrice: 100,
		Total: units, UserLimit: 1, OpensAt: now.Add(-time.Minute), ClosesAt: now.Add(time.Hour), PayWindow: 15 * time.Minute, OnSale: true,
	}
	for _, f := range change {
		f(it)
	}
	err := pg.InTx(y.T.Context(), y.DB, func(tx pgx.Tx) error {
		return y.Stock.Create(y.T.Context(), tx, inventory.NewStock{
			Item: it.Stock(), Total: it.Total, Unlimited: it.Unlimited, UserLimit: it.UserLimit, Rebuy: true, OpensAt: it.OpensAt, ClosesAt: it.ClosesAt,
		})
	})
	require.NoError(y.T, err)
	y.Load(it)
	return it
}

// Load loads an item into Redis.
func (y *Bundle) Load(it *catalogue.Item) {
	y.T.Helper()
	require.NoError(y.T, y.Stock.Load(y.T.Context(), it.ID))
}

// Close closes an unpaid order, which gives its units back.
func (y *Bundle) Close(no ids.ID) {
	y.T.Helper()
	row, _, _ := y.Orders.Get(y.T.Context(), no)
	y.move(y.T.Context(), y.Stock.Return, inventory.Key{ItemID: row.ItemID, Shard: row.Shard}, row.Quantity)
	y.end(no, orderevent.StatusClosed, orderevent.SubjectClosed)
}

// Pay marks an order paid, which makes its units sold.
func (y *Bundle) Pay(no ids.ID) {
	y.T.Helper()
	y.end(no, orderevent.StatusPaid, orderevent.SubjectPaid)
}

func (y *Bundle) end(no ids.ID, status, subject string) {
	y.T.Helper()
	data, err := json.Marshal(orderevent.Changed{Orders: []orderevent.Order{y.Orders.Set(no, status)}})
	require.NoError(y.T, err)
	require.NoError(y.T, y.events[subject](y.T.Context(), bus.Msg{Subject: subject, Data: data}))
	pgtest.Eventually(y.T, 30*time.Second, y.Stock.Idle, "the event is applied")
}

// Counted is the value of the counter with that label in a registry.
func Counted(t testing.TB, metrics *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no %s of %s is counted", name, label)
	return 0
}

// Run runs a worker until the returned function is called or the test ends.
func (y *Bundle) Run(worker func(context.Context) error) (stop func()) {
	y.T.Helper()
	return pgtest.Work(y.T, worker)
}

// SetState writes a field into every item's state in Redis.
func (y *Bundle) SetState(field string, value any) {
	y.T.Helper()
	for _, key := range y.Redis.Keys(y.T.Context(), "*:state").Val() {
		if err := y.Redis.HSet(y.T.Context(), key, field, value).Err(); err != nil {
			y.T.Fatalf("%s: %v", key, err)
		}
	}
}

// RedisCalls is a hook that counts the commands a client sends; a pipeline is one.
type RedisCalls struct{ N atomic.Int64 }

// DialHook leaves connections unchanged.
func (c *RedisCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command.
func (c *RedisCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.N.Add(1); return next(ctx, cmd) }
}

// ProcessPipelineHook counts a pipeline.
func (c *RedisCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.N.Add(1); return next(ctx, cmds) }
}

// Statements is a second pool on a database, with the number of statements that were begun
// on it.
func Statements(t testing.TB, db *pgxpool.Pool) (*pgxpool.Pool, *atomic.Int64) {
	t.Helper()
	cfg, statements := db.Config(), new(atomic.Int64)
	cfg.ConnConfig.Tracer = statementCounter{statements}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, statements
}

type statementCounter struct{ n *atomic.Int64 }

func (c statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Clock is an instance's clock: the machine's time plus what the test has
// added. The zero value is ready. Safe for concurrent use.
type Clock struct{ offset atomic.Int64 }

// Now is the current time.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())).UTC() }

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) { c.offset.Add(int64(d)) }

// Set moves the clock to so long after the machine's time.
func (c *Clock) Set(d time.Duration) { c.offset.Store(int64(d)) }

// WrongClocks are machines whose wall clock is far off.
var WrongClocks = map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute, "right": 0}

// OffBy is the clock of an instance on a machine that is off by wrong, after it
// has synchronized with Redis.
func (y *Bundle) OffBy(wrong time.Duration) *clock.Server {
	y.T.Helper()
	c := clock.NewServer(y.Redis, slog.New(slog.DiscardHandler))
	c.Local = func() time.Time { return time.Now().Add(wrong) }
	require.NoError(y.T, c.Sample(y.T.Context()))
	return c
}

// RedisTime is the Redis server's time, by which sales open.
func (y *Bundle) RedisTime() time.Time {
	y.T.Helper()
	now, err := y.Redis.Time(y.T.Context()).Result()
	require.NoError(y.T, err)
	return now
}
