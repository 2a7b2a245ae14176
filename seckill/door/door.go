package door

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/humancheck"
	"stampede/platform/store/bus"
	"stampede/platform/store/pulse"
	"stampede/platform/store/redisx"
	"stampede/seckill/catalogue"
	"stampede/seckill/reservation"
	"stampede/seckill/risk"
	"stampede/seckill/rush"
)

// Settings are the settings of the checks.
type Settings struct {
	Risk         risk.Settings        `embed:"" group:"Blacklist and risk rules:"`
	Reservations reservation.Settings `embed:"" group:"Limits and proxies:"`

	EasyPathsPerAddress int `default:"50" env:"STAMPEDE_EASY_PATHS_PER_ADDRESS" help:"Shoppers of one address (of IPv6 a /64; a /56 has twice, a /48 four times as many) who get rush paths for an item in a minute as the activity says. Further ones do a proof of work too, a harder one with each doubling, unless the activity requires a slide or a verifier; none is refused. 0: no further work." min:"0" max:"1000000" group:"Limits and proxies:" rare:""`
}

// Config is the configuration of the door.
type Config struct {
	Settings
	Keep     time.Duration // how long decisions, and reservations after their session, are kept
	PathLead time.Duration // how long before the opening paths are issued; the rush's setting
}

// Deps are the door's dependencies; all are required.
type Deps struct {
	Catalogue  *catalogue.Catalogue
	DB         *pgxpool.Pool // seckill's
	Pulse      *pulse.Pulse  // nil: the loops ask themselves
	Bus        *bus.Bus
	Clock      clock.Clock // the Redis server's time, by estimate
	Orders     risk.Orders
	Human      *humancheck.Service
	Limits     *ratelimit.Limiter
	Locks      *redisx.Locks // of reservations
	Blacklist  risk.Blacklist
	SigningKey []byte
	Log        *slog.Logger
	Metrics    prometheus.Registerer
}

// Service is the checks and their state. Safe for concurrent use.
type Service struct {
	cfg          Config
	risk         *risk.Service
	reservations *reservation.Service
	human        *humanCheck
	checks       []rush.DoorCheck
}

// New builds the checks.
func New(cfg Config, deps Deps) *Service {
	d := &Service{cfg: cfg}
	d.risk = risk.New(cfg.Risk, risk.Deps{
		DB: deps.DB, Pulse: deps.Pulse, Bus: deps.Bus, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics,
		Items: deps.Catalogue, Orders: deps.Orders, Blacklist: deps.Blacklist, SigningKey: deps.SigningKey, Keep: cfg.Keep,
	})
	d.reservations = reservation.New(reservation.Deps{
		DB: deps.DB, Locks: deps.Locks, Items: deps.Catalogue, Human: deps.Human, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics,
		PathLead: cfg.PathLead,
	})
	d.human = &humanCheck{
		items: deps.Catalogue, human: deps.Human, limits: deps.Limits, clock: deps.Clock, proofs: d.reservations, pathLead: cfg.PathLead,
	}
	if cfg.EasyPathsPerAddress > 0 {
		d.human.crowds = ratelimit.NewCrowds(cfg.EasyPathsPerAddress, time.Minute)
	}
	d.checks = []rush.DoorCheck{d.risk.Door, d.reservations.Check, d.human.check, d.risk.Participate}
	return d
}

// Refuses are the refusals of Admit.
var Refuses = []*fault.Error{
	risk.ErrNotAvailable, risk.ErrOneActivity, reservation.ErrNotHeld, humancheck.ErrRequired, humancheck.ErrFailed, humancheck.ErrUnavailable,
}

// Admit is the rush.DoorCheck that runs all checks.
func (d *Service) Admit(ctx context.Context, a *rush.Applicant) error {
	for _, check := range d.checks {
		if err := check(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// Paused is rush.Deps' Paused.
func (d *Service) Paused(user, activity int64, now time.Time) time.Duration {
	return d.risk.Paused(user, activity, now)
}

// Load reads the blacklist and the rules. Call it before serving.
func (d *Service) Load(ctx context.Context) error { return d.risk.Refresh(ctx) }

// Routes registers the checks' routes.
func (d *Service) Routes(rt *httpx.Router) {
	d.risk.Routes(rt)
	d.reservations.Routes(rt.API, d.cfg.Reservations.Limit())
	d.human.routes(rt)
}

// Subscriptions are the checks' subscriptions to EVENTS.
func (d *Service) Subscriptions() []bus.Subscription { return d.risk.Subscriptions() }

// Workers are the checks' background loops.
func (d *Service) Workers() []app.Worker {
	return slices.Concat(d.risk.Workers(), []app.Worker{d.human.worker(), d.reservations.Worker(d.cfg.Keep)})
}
