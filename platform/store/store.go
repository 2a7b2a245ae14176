// Package store opens the stores of one process: Postgres, Redis, NATS and the relay
// that carries events from the one to the other. Each is a separate package; the order
// in which they depend on each other, and what one process must hold alone, is here.
package store

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/telemetry"
	"stampede/platform/base/tracing"
	"stampede/platform/store/bus"
	"stampede/platform/store/bus/natsserver"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/store/pulse"
	"stampede/platform/store/redisx"
	"stampede/platform/store/rollback"
)

// Addresses say where the stores are; see the settings of the same names.
type Addresses struct {
	DatabaseURL     string
	DatabaseReadURL string // of a standby; "": there is none
	RedisURL        string
	LockRedisURLs   []string
	NATSURL         string // "": embedded, and this process is the only instance
	NATSDir         string // of the embedded one
}

// Config is what the process wants of its stores.
type Config struct {
	Addresses
	Postgres  pg.Settings
	Bus       bus.Settings
	Queues    []bus.QueueConfig // the modules' work queues
	Records   outbox.Settings
	Weights   map[string]int32 // how the users of Postgres divide its connections
	RedisKeys []string         // the prefixes of our keys
}

// Raise raises an alarm about a subject.
type Raise = func(ctx context.Context, db pg.DB, subject, detail string) error

// Deps are what the stores report with.
type Deps struct {
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Trace    *tracing.Tracer
	WentBack Raise // Postgres or Redis was set back to an earlier state
	Refused  Raise // NATS refuses an event
	Failed   Raise // the relay gave one up
	// End shuts the process down, because another one holds what only one may hold.
	End context.CancelCauseFunc
}

// Stores are the open stores. What a process that only reads the books does not open
// is nil.
type Stores struct {
	Pools   map[string]*pgxpool.Pool // by the names of Config.Weights
	Standby *pg.Standby              // where lists, exports and reports read
	Redis   redis.UniversalClient
	Locks   *redisx.Locks
	Bus     *bus.Bus
	Relay   *outbox.Relay
	Pulse   *pulse.Pulse // what the loops wait for
	Clock   *clock.Server
	// StreamDir is where the embedded NATS keeps its streams; "" where NATS is a server
	// of its own.
	StreamDir string
}

// SingleInstance says whether no other process publishes: the instance lock is ours
// and NATS is embedded.
func (s *Stores) SingleInstance() bool { return s.StreamDir != "" }

// OpenBooks opens Postgres and Redis, which hold the books, for a process that serves
// nothing. As for Open, stopping a closes what was opened, even if it failed halfway.
func OpenBooks(ctx context.Context, a *app.App, cfg Config) (*Stores, error) {
	s := new(Stores)
	var err error
	if s.Pools, err = pg.OpenPools(ctx, a, cfg.DatabaseURL, pg.Share(cfg.Postgres.MaxConns, cfg.Weights)); err != nil {
		return nil, err
	}
	if err := pg.CheckVersion(ctx, s.Pools["platform"]); err != nil {
		return nil, err
	}
	a.OnReady("postgres", func(ctx context.Context) error { return pg.Writable(ctx, s.Pools["platform"]) })
	if s.Redis, err = redisx.OpenFor(ctx, a, cfg.RedisURL); err != nil {
		return nil, err
	}
	return s, nil
}

// Open migrates the database and opens all stores; nothing runs yet.
func Open(ctx context.Context, a *app.App, cfg Config, deps Deps) (*Stores, error) {
	if _, _, err := pg.Migrate(ctx, cfg.DatabaseURL); err != nil {
		return nil, err
	}
	s, err := OpenBooks(ctx, a, cfg)
	if err != nil {
		return nil, err
	}
	if s.Standby, err = pg.OpenStandby(ctx, a, cfg.DatabaseReadURL, s.Pools["platform"], deps.Log, deps.Metrics); err != nil {
		return nil, err
	}
	warn := func(w string) { deps.Log.WarnContext(ctx, "redis setting", "warning", w) }
	if err := redisx.Check(ctx, s.Redis, warn); err != nil {
		return nil, err
	}
	if s.Locks, err = redisx.OpenLocks(ctx, deps.Log, s.Redis, cfg.LockRedisURLs...); err != nil {
		return nil, err
	}
	a.OnStop("lock nodes", func(context.Context) error { return s.Locks.Close() })
	if err := pg.HoldInstanceLock(ctx, cfg.DatabaseURL, cfg.NATSURL != "", deps.Log, a, deps.End); err != nil {
		return nil, err
	}
	if cfg.NATSURL == "" {
		s.StreamDir = cfg.NATSDir
	}
	if err := rollback.Start(ctx, a, s.Pools["platform"], s.Redis, cfg.RedisKeys, deps.WentBack, deps.Log); err != nil {
		return nil, err
	}
	busCfg := bus.Config{URL: cfg.NATSURL, Settings: cfg.Bus, Queues: cfg.Queues, Log: deps.Log, Metrics: deps.Metrics, Trace: deps.Trace}
	if s.SingleInstance() {
		busCfg.Embedded = natsserver.New(s.StreamDir, deps.Log)
	}
	if s.Bus, err = bus.Open(ctx, busCfg); err != nil {
		return nil, err
	}
	a.OnStop("bus", s.Bus.Close)
	a.OnReady("nats", s.Bus.Healthy)
	s.Pulse = pulse.New(s.Pools["platform"], deps.Log, deps.Metrics)
	s.Relay = outbox.New(s.Pools["platform"], s.Bus, s.Pulse, cfg.Records.RetryRefused, deps.Refused, deps.Failed, deps.Log, deps.Metrics)
	s.Clock = clock.NewServer(s.Redis, deps.Log)
	deps.Metrics.MustRegister(telemetry.NewPools(s.Pools, s.Redis), s.Clock)
	if err := s.Clock.Sample(ctx); err != nil {
		return nil, fmt.Errorf("read the Redis server's time: %w", err)
	}
	return s, nil
}
