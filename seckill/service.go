package seckill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/tracing"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
	"stampede/platform/store/bus"
	"stampede/platform/watch/preflight"
	"stampede/platform/watch/tally"
	"stampede/seckill/browse"
	"stampede/seckill/catalogue"
	"stampede/seckill/preheat"
	"stampede/seckill/rush"
)

// Waker is woken when an outbox row is committed, so that the relay need not
// wait for its next poll.
type Waker interface{ Wake() }

// Deps are what the module works with; all are required unless they say otherwise.
type Deps struct {
	// Catalogue is the one that NewCatalogue returned; the door reads it too.
	Catalogue *catalogue.Catalogue
	Queue     *rush.Queue   // of the grants of its items
	DB        *pgxpool.Pool // the module's own budget of connections
	Redis     redis.UniversalClient
	Bus       *bus.Bus
	Stock     *inventory.Service
	Outbox    Waker
	Clock     clock.Clock // the Redis server's time, by estimate
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	Orders    rush.Orders
	// SigningKey is the process's key; each purpose derives a separate key from
	// it.
	SigningKey []byte
	Trace      *tracing.Tracer // nil is off
	Tally      *tally.Board    // merges what every instance counts; nil for none
	// Admit decides who gets a rush path; it is the door's. Without it every user is
	// admitted.
	Admit  rush.DoorCheck
	Paused func(user, activity int64, now time.Time) time.Duration // see rush.Deps
	// Servers are the checks of a preflight beside the plan's.
	Servers []preflight.Check
	// Images fetches items' images for a preflight. Nil fetches from the Internet,
	// and from no private address.
	Images *outbound.Client
}

// Service is the seckill module. Safe for concurrent use.
type Service struct {
	cfg       Config
	deps      Deps
	Catalogue *catalogue.Catalogue
	Rush      *rush.Service
	Preheat   *preheat.Service
	Browse    *browse.Service
	funnels   follows[itemFunnelView]
	rooms     follows[warRoomView]
	stopping  chan struct{} // closed by EndStreams
	endOnce   sync.Once
}

// NewCatalogue returns the catalogue of what is published in db. It is empty until
// the module's worker or Refresh has run.
func NewCatalogue(cfg Config, db *pgxpool.Pool, log *slog.Logger, metrics prometheus.Registerer) (*catalogue.Catalogue, error) {
	items, err := catalogue.New(newPublishedPlan(cfg, db), log, metrics)
	if err != nil {
		return nil, fmt.Errorf("seckill: register the catalogue's metrics: %w", err)
	}
	return items, nil
}

// New returns the module. It reads nothing yet.
func New(cfg Config, deps Deps) (*Service, error) {
	if deps.Catalogue == nil || deps.DB == nil || deps.Redis == nil || deps.Stock == nil || deps.Bus == nil || deps.Outbox == nil ||
		deps.Clock == nil || deps.Log == nil || deps.Metrics == nil || deps.Orders == nil || len(deps.SigningKey) == 0 {
		return nil, errors.New("seckill: every dependency is required")
	}
	if deps.Images == nil {
		deps.Images = outbound.New(outbound.Config{Peer: "images", Timeout: imageTimeout, Attempts: 1, MaxBytes: 1, Public: true, MaxConns: imagesAtOnce})
	}
	items := deps.Catalogue
	s := &Service{cfg: cfg, deps: deps, Catalogue: items, stopping: make(chan struct{})}
	s.funnels.log, s.rooms.log = deps.Log, deps.Log
	s.Browse = browse.New(browse.Deps{
		Plan: newPublishedPlan(cfg, deps.DB), Redis: deps.Redis, Stock: deps.Stock, Catalogue: items, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics,
		CacheBytes: cfg.BrowseCacheBytes,
	})
	s.Preheat = preheat.New(preheat.Deps{
		DB: deps.DB, Stock: deps.Stock, Catalogue: items, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics,
	})
	var err error
	s.Rush, err = rush.New(cfg.Rush, rush.Deps{
		Catalogue: items, Queue: deps.Queue, DB: deps.DB, Redis: deps.Redis, Bus: deps.Bus, Stock: deps.Stock, Orders: deps.Orders, Clock: deps.Clock, Log: deps.Log,
		Metrics: deps.Metrics, SigningKey: deps.SigningKey, ShortestPay: cfg.ShortestPayWindow, Trace: deps.Trace,
		Admit: deps.Admit, Paused: deps.Paused, Tally: deps.Tally,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Routes registers the module's routes.
func (s *Service) Routes(rt *httpx.Router) {
	s.adminRoutes(rt.API)
	s.Browse.Routes(rt.API)
	s.Rush.Routes(rt)
}

// EndStreams ends the funnels that operators follow. A stop calls it before requests
// drain, which would otherwise wait for them.
func (s *Service) EndStreams(context.Context) error {
	s.endOnce.Do(func() { close(s.stopping) })
	return nil
}

// Subscriptions are the module's subscriptions to EVENTS.
func (s *Service) Subscriptions() []bus.Subscription {
	return []bus.Subscription{s.Catalogue.Subscription(), s.changeSubscription()}
}

// Workers are the module's background loops.
func (s *Service) Workers() []app.Worker {
	return append([]app.Worker{
		{Name: "seckill-catalogue", Run: s.Catalogue.Run},
		{Name: "seckill-lifecycle", Run: s.runLifecycle},
		{Name: "seckill-housekeeping", Run: s.runHousekeeping},
		{Name: "seckill-views", Run: s.Browse.Run},
		{Name: "seckill-preheat", Run: s.Preheat.Run},
	}, s.Rush.Workers()...)
}
