package risk

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/identity/blacklist"
	"stampede/platform/store/bus"
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
func New(set Settings, deps Deps) (*Service, error) {
	if deps.DB == nil || deps.Bus == nil || deps.Clock == nil || deps.Log == nil || deps.Metrics == nil ||
		deps.Items == nil || len(deps.SigningKey) == 0 {
		return nil, errors.New("risk: every dependency but Orders and Blacklist is required")
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	s := &Service{
		set: set, deps: deps, metrics: m, chanceKey: auth.Derive(deps.SigningKey, "risk-chance"), holder: ids.New().String(),
		queue:  make(chan decision, maxQueued),
		unpaid: unpaid{of: map[taking]closings{}},
	}
	s.current = snapshot.New(snapshot.Source[picture]{
		Name: "risk", Table: "risk.revision", Read: s.readPicture, Failures: m.refreshFailures, DB: deps.DB, Bus: deps.Bus, Log: deps.Log,
	}, &picture{})
	return s, nil
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
