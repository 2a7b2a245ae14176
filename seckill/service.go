package seckill

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/config"
	"stampede/platform/base/fault"
	"stampede/platform/base/tracing"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/store/pulse"
	"stampede/platform/watch/preflight"
	"stampede/platform/watch/tally"
	"stampede/seckill/browse"
	"stampede/seckill/bulletin"
	"stampede/seckill/catalogue"
	"stampede/seckill/change"
	"stampede/seckill/funnel"
	"stampede/seckill/plan"
	"stampede/seckill/preheat"
	"stampede/seckill/queue"
	"stampede/seckill/readiness"
	"stampede/seckill/reservation"
	"stampede/seckill/rush"
	"stampede/seckill/settlement"
)

// RedisKeys are the prefixes of the module's keys.
var RedisKeys = slices.Concat(browse.RedisKeys, reservation.RedisKeys, rush.RedisKeys)

// Config is the plan's configuration with that of the rush and of browsing.
type Config struct {
	plan.Config
	// BrowseCacheBytes is the memory for browse answers, which stay in it for one
	// or two seconds: enough for a thousand sessions of some forty items. An answer larger than a
	// 1024th of it is not cached.
	BrowseCacheBytes int
	// Rush is how rushes are admitted.
	Rush rush.Config
}

// NewConfig is the configuration for the given settings in a shop without a
// payment provider or a verifier.
func NewConfig(set plan.Settings, rushes rush.Config) Config {
	return Config{Config: plan.NewConfig(set), BrowseCacheBytes: 32 << 20, Rush: rushes}
}

// DefaultConfig is the configuration when nothing is set.
func DefaultConfig() Config { return NewConfig(config.Defaults[plan.Settings](), rush.DefaultConfig()) }

// Deps are what the module works with; all are required unless they say otherwise.
type Deps struct {
	// Catalogue is what is published, of which the door reads as well.
	Catalogue *catalogue.Catalogue
	Places    *rush.Places  // of the numbers of its items
	DB        *pgxpool.Pool // the module's own budget of connections
	Standby   *pg.Standby   // for reports and the list of reservations; nil: there is none
	Pulse     *pulse.Pulse  // nil: the loops ask themselves
	Redis     redis.UniversalClient
	Bus       *bus.Bus
	Grants    *queue.Queue
	Stock     *inventory.Service
	Outbox    change.Waker
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
	Admit   rush.DoorCheck
	Refuses []*fault.Error                                          // of Admit
	Paused  func(user, activity int64, now time.Time) time.Duration // see rush.Deps
	// Servers are the checks of a preflight beside the plan's.
	Servers []preflight.Check
	// Images fetches items' images for a preflight. Nil fetches from the Internet,
	// and from no private address.
	Images *outbound.Client
}

// Service is the seckill module. Safe for concurrent use.
type Service struct {
	Catalogue *catalogue.Catalogue
	Browse    *browse.Service
	Preheat   *preheat.Service
	Rush      *rush.Service
	change    *change.Service
	readiness *readiness.Service
	sweeper   *queue.Sweeper
	bulletin  *bulletin.Service
	Funnel    *funnel.Service
	settled   *settlement.Service
}

// New returns the module. It reads nothing yet.
func New(cfg Config, deps Deps) (*Service, error) {
	if deps.Catalogue == nil || deps.DB == nil || deps.Redis == nil || deps.Stock == nil || deps.Bus == nil || deps.Outbox == nil ||
		deps.Clock == nil || deps.Log == nil || deps.Metrics == nil || deps.Orders == nil || len(deps.SigningKey) == 0 {
		return nil, errors.New("seckill: every dependency is required")
	}
	items := deps.Catalogue
	s := &Service{Catalogue: items}
	s.Browse = browse.New(browse.Deps{
		Plan: plan.NewPublished(cfg.Config, deps.DB), Redis: deps.Redis, Stock: deps.Stock, Catalogue: items, Clock: deps.Clock,
		Log: deps.Log, Metrics: deps.Metrics, CacheBytes: cfg.BrowseCacheBytes,
	})
	s.Preheat = preheat.New(preheat.Deps{
		DB: deps.DB, Stock: deps.Stock, Catalogue: items, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics,
	})
	s.readiness = readiness.New(cfg.Config, readiness.Deps{DB: deps.DB, Standby: deps.Standby, Clock: deps.Clock, Servers: deps.Servers, Images: deps.Images})
	s.change = change.New(cfg.Config, change.Deps{
		DB: deps.DB, Standby: deps.Standby, Pulse: deps.Pulse, Stock: deps.Stock, Outbox: deps.Outbox, Catalogue: items, Browse: s.Browse, Clock: deps.Clock, Log: deps.Log,
		Readiness: s.readiness,
	})
	s.sweeper = queue.NewSweeper(deps.Grants, deps.Stock, deps.DB, cfg.Rush.PublishDeadline)
	s.bulletin = bulletin.New(bulletin.Deps{DB: deps.DB, Stock: deps.Stock, Outbox: deps.Outbox, Log: deps.Log})
	s.Funnel = funnel.New(funnel.Deps{DB: deps.DB, Standby: deps.Standby, Stock: deps.Stock, Catalogue: items, Clock: deps.Clock, Log: deps.Log, Zone: cfg.Zone()})
	s.settled = settlement.New(settlement.Deps{DB: deps.DB, Stock: deps.Stock, Clock: deps.Clock, Report: s.Funnel.Report, Log: deps.Log})
	var err error
	s.Rush, err = rush.New(cfg.Rush, rush.Deps{
		Catalogue: items, Places: deps.Places, Grants: deps.Grants, Bus: deps.Bus, Redis: deps.Redis, Stock: deps.Stock, Orders: deps.Orders, Clock: deps.Clock,
		Log: deps.Log, Metrics: deps.Metrics, SigningKey: deps.SigningKey, ShortestPay: cfg.ShortestPayWindow, Trace: deps.Trace,
		Admit: deps.Admit, Refuses: deps.Refuses, Paused: deps.Paused, Tally: deps.Tally,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Routes registers the module's routes.
func (s *Service) Routes(rt *httpx.Router) {
	s.change.Routes(rt.API)
	s.readiness.Routes(rt.API)
	s.Funnel.Routes(rt.API)
	s.settled.Routes(rt.API)
	s.Browse.Routes(rt.API)
	s.Rush.Routes(rt)
}

// Subscriptions are the module's subscriptions to EVENTS.
func (s *Service) Subscriptions() []bus.Subscription {
	return []bus.Subscription{s.Catalogue.Subscription(), s.change.Subscription()}
}

// Workers are the module's background loops.
func (s *Service) Workers() []app.Worker {
	return slices.Concat([]app.Worker{
		{Name: "seckill-catalogue", Run: s.Catalogue.Run},
		{Name: "seckill-views", Run: s.Browse.Run},
		{Name: "seckill-preheat", Run: s.Preheat.Run},
		s.Rush.Worker(),
		{Name: "seckill-holds", Run: s.sweeper.Run},
		{Name: "seckill-bulletin", Run: s.bulletin.Run},
		s.settled.Worker(),
	}, s.change.Workers())
}
