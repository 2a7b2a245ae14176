package order

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/order/coupon"
	"stampede/order/orderevent"
	"stampede/order/stores"
	"stampede/platform/base/app"
	"stampede/platform/base/tracing"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/tally"
	"stampede/seckill/seckillevent"
)

// Waker is notified that an outbox row was committed, so that the relay need
// not wait for the next poll.
type Waker interface{ Wake() }

// Plan is what was on sale; seckill implements it.
type Plan interface {
	coupon.Reservations
	// SaleOf returns what was on sale as an item, from memory where it can; the zero value
	// if there is no such item.
	SaleOf(ctx context.Context, item int64) (seckillevent.Sale, error)
}

// Grants is the queue from which the writer takes what Redis granted; seckill/queue
// implements it.
type Grants interface {
	// Consume passes the messages to handle in batches until ctx ends.
	Consume(ctx context.Context, handle func(ctx context.Context, batch []bus.Msg)) error
	State(ctx context.Context) (bus.QueueState, error)
}

// Deps are the module's dependencies; all are required, except the tracer,
// Accounts, Blocked and, in a process that only reads, such as verify, the bus.
type Deps struct {
	DB      *pgxpool.Pool // the module's own budget of connections, at least 4
	Redis   redis.UniversalClient
	Bus     *bus.Bus
	Grants  Grants // as Bus
	Stock   *inventory.Service
	Queue   Queue
	Plan    Plan
	Outbox  Waker
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Trace   *tracing.Tracer // nil disables tracing
	Tally   *tally.Board    // counts orders by item; nil for none
	// Accounts knows the shoppers; nil knows none.
	Accounts coupon.Users
	// Blocked reports whether a user, listed or disabled, may no longer have an order; the writer calls
	// it for every grant, so it must answer from memory. nil blocks no user.
	Blocked func(user int64) bool
}

// Service is the order module: the state machine of orders, on the writer that makes them,
// the lookups that read single ones, and the checker of what is stored. Safe for
// concurrent use.
type Service struct {
	Reader
	core
	*lookups
	*checker

	writer  *writer
	stores  *stores.Service
	coupons *coupon.Service
	// reading has a slot for each list query under way; see newReading.
	reading chan struct{}
}

// core is what the parts of the module share.
type core struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	cache   *cache
	cached  *cachedEvents
}

// New returns the module; nothing runs until its workers are started.
func New(cfg Config, deps Deps) (*Service, error) {
	if deps.DB == nil || deps.Redis == nil || deps.Stock == nil || deps.Queue == nil || deps.Plan == nil || deps.Outbox == nil ||
		deps.Log == nil || deps.Metrics == nil {
		return nil, errors.New("order: every dependency is required")
	}
	m := newMetrics(deps.Metrics, deps.Tally)
	c := core{cfg: cfg, deps: deps, metrics: m, cache: newCache(deps.Redis, cfg, m), cached: new(cachedEvents)}
	conns := deps.DB.Config().MaxConns
	s := &Service{
		Reader: Reader{DB: deps.DB}, core: c, lookups: newLookups(c), writer: &writer{core: c, aside: newAside(conns)},
		stores: stores.New(deps.DB), reading: newReading(conns),
	}
	s.coupons = coupon.New(deps.DB, s.EnterReading, s.ownOrder, deps.Accounts)
	s.checker = &checker{Reader: s.Reader, core: c, coupons: s.coupons}
	return s, nil
}

// Workers are the module's loops.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{
		{Name: "order-writer", Run: s.writer.run},
		{Name: "order-cache-takeovers", Run: s.watchTakeovers},
		{Name: "order-housekeeping", Run: s.housekeeping},
		s.coupons.ReservedWorker(s.deps.Plan, s.deps.Log),
	}
}

// cacheAttempts is how often the put of a change into the cache is attempted
// before the change becomes a dead letter: at up to 30 s each, through an hour
// without Redis.
const cacheAttempts = 120

// Subscriptions are the module's subscriptions to EVENTS.
func (s *Service) Subscriptions() []bus.Subscription {
	return []bus.Subscription{
		// Every change reaches the cache even if the process that made it died
		// after the commit. Needs no inbox: an older version changes nothing.
		{Name: "order-cache", Filter: orderevent.SubjectAll, MaxAttempts: cacheAttempts, Layout: orderevent.Layout, Handle: s.cacheChanged},
		s.coupons.RegisteredSubscription(),
	}
}

// Probes watch for coupons that wait for an operator.
func (s *Service) Probes() []alarm.Probe { return s.coupons.Probes() }
