package risk

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/identity/blacklist"
	"stampede/platform/store/bus"
	"stampede/platform/store/pulse"
	"stampede/platform/store/snapshot"
	"stampede/seckill/catalogue"
)

// Items are what is on sale; *catalogue.Catalogue is one.
type Items interface {
	Items() []*catalogue.Item
	// Ready reports whether they have been read since the start.
	Ready() bool
}

// Orders queries orders; order implements it and main wires it.
type Orders interface {
	// OpenUnpaid returns the number of orders waiting for payment of each user
	// who has at least atLeast of them: at most most users, those with the most
	// first.
	OpenUnpaid(ctx context.Context, atLeast, most int) (map[int64]int64, error)
}

// Blacklist reports who is listed; *blacklist.Service is one.
type Blacklist interface {
	Listed(user int64, phone, device string, addr netip.Addr) (blacklist.Entry, bool)
}

// Deps are the package's dependencies; all but Blacklist and Orders are
// required.
type Deps struct {
	DB        *pgxpool.Pool // the seckill module's
	Pulse     *pulse.Pulse  // nil: the loops ask themselves
	Bus       *bus.Bus
	Clock     clock.Clock // the Redis server's time, by estimate
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	Items     Items
	Orders    Orders    // nil: rules of the kind open_unpaid never apply
	Blacklist Blacklist // nil: no user is listed
	// SigningKey is the process's key; the key for the lots of chance is derived
	// from it.
	SigningKey []byte
	Keep       time.Duration // of decisions
}

// Service decides at the door. Safe for concurrent use.
type Service struct {
	set       Settings
	deps      Deps
	metrics   *metrics
	chanceKey []byte
	holder    string // this process, as holder of the counting lease

	current *snapshot.Replica[picture]
	queue   chan decision
	unpaid  unpaid
}

// New returns the service without rules; Refresh or the worker reads them.
func New(set Settings, deps Deps) *Service {
	m := newMetrics(deps.Metrics)
	s := &Service{
		set: set, deps: deps, metrics: m, chanceKey: auth.Derive(deps.SigningKey, "risk-chance"), holder: ids.New().String(),
		queue:  make(chan decision, maxQueued),
		unpaid: unpaid{of: map[taking]closings{}},
	}
	s.current = snapshot.New(snapshot.Source[picture]{
		Name: "risk", Table: "risk.revision", Read: s.readPicture, Failures: m.refreshFailures, DB: deps.DB, Pulse: deps.Pulse, Bus: deps.Bus, Log: deps.Log,
	}, &picture{})
	return s
}

// Workers are the package's background loops.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{
		{Name: "risk-rules", Run: s.current.Run},
		{Name: "risk-unpaid", Run: s.followUnpaid},
		{Name: "risk-decisions", Run: s.storeDecisions},
		{Name: "risk-count", Run: s.keepCounting},
	}
}

// Settings are what an operator may set about the rules against offenders, and about
// the claim that limits a shopper to one exclusive activity at a time.
type Settings struct {
	MaxOffenders int           `name:"risk-max-offenders" default:"100000" env:"STAMPEDE_RISK_MAX_OFFENDERS" help:"The most users that risk rules may apply to at the same time, worst offenders first; each takes some 100 bytes of memory." min:"100" max:"1000000" rare:""`
	UnpaidPause  time.Duration `default:"1m" env:"STAMPEDE_UNPAID_PAUSE" help:"How long a shopper gets no rush path in an activity after an unpaid order there was closed; four times as long after each further one, up to a day. 0 is no pause, and no shorter payment window." min:"0s" max:"24h" rare:""`
	ClaimKeep    time.Duration `default:"1h" env:"STAMPEDE_CLAIM_KEEP" help:"How long after an exclusive activity its buyers may not take part in another: long enough for unpaid orders to be paid or closed." min:"0s" max:"24h" rare:""`
}

// claimGrace is how long after its path's end a claim waits for the order that the
// path may have become: every queued number is settled within it.
const claimGrace = time.Minute

type metrics struct {
	decisions       *prometheus.CounterVec
	elsewhere       prometheus.Counter
	lost            prometheus.Counter
	refreshFailures prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	m := &metrics{
		decisions: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_risk_decisions_total", Help: "Decisions that restricted a shopper's rush path, by result: short-window, later, refused-by-chance, refused, paused; dry-run restricted nothing yet.",
		}, []string{"result"}),
		elsewhere: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_risk_one_activity_refusals_total", Help: "Rush paths refused because the shopper takes part in another exclusive activity.",
		}),
		lost: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_risk_decisions_lost_total", Help: "Decisions that were in force but could not be stored.",
		}),
		refreshFailures: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_risk_refresh_failures_total", Help: "Times the risk rules could not be read from Postgres.",
		}),
	}
	for _, result := range [...]string{resultShortWindow, resultLater, resultUnlucky, resultRefused, resultPaused, resultDryRun} {
		m.decisions.WithLabelValues(result) // visible from the start, as 0
	}
	return m
}
