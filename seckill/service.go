package seckill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/app"
	"stampede/platform/bus"
	"stampede/platform/clock"
	"stampede/platform/httpx"
	"stampede/platform/ids"
	"stampede/platform/ratelimit"
	"stampede/platform/telemetry/tracing"
)

// Orders is what seckill asks about order numbers; order implements it and
// main wires it, because seckill may not import order.
type Orders interface {
	// Known returns the status of each number that Postgres has a row for.
	Known(ctx context.Context, nos []ids.ID) (map[ids.ID]string, error)
	// Get returns an order from the cache or Postgres; false when it has none.
	Get(ctx context.Context, no ids.ID) (orderevent.Order, bool, error)
}

// Waker is told that an outbox row was committed, so that it need not wait for
// the next poll.
type Waker interface{ Wake() }

// Deps are what the module works with; all are required.
type Deps struct {
	DB      *pgxpool.Pool // the module's own budget of connections
	Redis   redis.UniversalClient
	Bus     *bus.Bus
	Stock   *inventory.Service
	Outbox  Waker
	Clock   clock.Clock // the Redis server's time, by estimate
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Orders  Orders
	// SigningKey is the process's key; each purpose derives its own from it.
	SigningKey []byte
	Trace      *tracing.Tracer // nil is off
	// Repeats bounds how often a user sends rushes to this instance; nil does not.
	Repeats *ratelimit.Repeats
}

// Service is the seckill module. Safe for concurrent use.
type Service struct {
	cfg       Config
	deps      Deps
	Catalogue *Catalogue
	views     *viewStore
	browser   *browser
	preheat   *preheater
	rush      *rush
}

// New returns the module. It reads nothing yet: the catalogue is empty until
// its worker or Catalogue.Refresh has run.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.DB == nil || deps.Redis == nil || deps.Stock == nil || deps.Bus == nil || deps.Outbox == nil ||
		deps.Clock == nil || deps.Log == nil || deps.Metrics == nil || deps.Orders == nil || len(deps.SigningKey) == 0 {
		return nil, errors.New("seckill: every dependency is required")
	}
	s := &Service{cfg: cfg, deps: deps, Catalogue: newCatalogue(cfg, deps), views: &viewStore{deps: deps}}
	s.browser = newBrowser(cfg, deps, s.Catalogue, s.views)
	s.preheat = newPreheater(cfg, deps, s.Catalogue)
	var err error
	if s.rush, err = newRush(cfg, deps, s.Catalogue); err != nil {
		return nil, fmt.Errorf("seckill: %w", err)
	}
	return s, nil
}

// Routes registers the module's routes.
func (s *Service) Routes(rt *httpx.Router) {
	s.adminRoutes(rt.API)
	s.browser.routes(rt.API)
	s.rush.routes(rt)
}

// Subscriptions are what the module listens to on EVENTS.
func (s *Service) Subscriptions() []bus.Subscription {
	return append([]bus.Subscription{s.Catalogue.subscription(), s.viewSubscription()}, s.rush.subscriptions()...)
}

// Workers are the module's loops.
func (s *Service) Workers() []app.Worker {
	return append([]app.Worker{
		{Name: "seckill-catalogue", Run: s.Catalogue.Run},
		{Name: "seckill-lifecycle", Run: s.runLifecycle},
		{Name: "seckill-views", Run: s.runViews},
		{Name: "seckill-preheat", Run: s.preheat.run},
	}, s.rush.workers()...)
}
