package seckill

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/platform/app"
	"stampede/platform/bus"
	"stampede/platform/clock"
	"stampede/platform/httpx"
	"stampede/platform/ratelimit"
	"stampede/platform/telemetry/tracing"
	"stampede/seckill/catalogue"
	"stampede/seckill/rush"
)

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
	Orders  rush.Orders
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
	Catalogue *catalogue.Catalogue
	Rush      *rush.Service
	views     *viewStore
	browser   *browser
	preheat   *preheater
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
	items, err := catalogue.New(newPublishedPlan(cfg, deps.DB), deps.Log, deps.Metrics)
	if err != nil {
		return nil, fmt.Errorf("seckill: register the catalogue's metrics: %w", err)
	}
	s := &Service{cfg: cfg, deps: deps, Catalogue: items, views: &viewStore{deps: deps}}
	s.browser = newBrowser(cfg, deps, items, s.views)
	s.preheat = newPreheater(cfg, deps, items)
	s.Rush, err = rush.New(cfg.Rush, rush.Deps{
		Catalogue: items, DB: deps.DB, Redis: deps.Redis, Bus: deps.Bus, Stock: deps.Stock, Orders: deps.Orders, Clock: deps.Clock, Log: deps.Log,
		Metrics: deps.Metrics, SigningKey: deps.SigningKey, ShortestPay: cfg.ShortestPayWindow, Trace: deps.Trace, Repeats: deps.Repeats,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Routes registers the module's routes.
func (s *Service) Routes(rt *httpx.Router) {
	s.adminRoutes(rt.API)
	s.browser.routes(rt.API)
	s.Rush.Routes(rt)
}

// Subscriptions are what the module listens to on EVENTS.
func (s *Service) Subscriptions() []bus.Subscription {
	return []bus.Subscription{s.Catalogue.Subscription(), s.viewSubscription()}
}

// Workers are the module's loops.
func (s *Service) Workers() []app.Worker {
	return append([]app.Worker{
		{Name: "seckill-catalogue", Run: s.Catalogue.Run},
		{Name: "seckill-lifecycle", Run: s.runLifecycle},
		{Name: "seckill-housekeeping", Run: s.runHousekeeping},
		{Name: "seckill-views", Run: s.runViews},
		{Name: "seckill-preheat", Run: s.preheat.run},
	}, s.Rush.Workers()...)
}
