package change

import (
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/seckill/browse"
	"stampede/seckill/catalogue"
	"stampede/seckill/plan"
	"stampede/seckill/readiness"
)

// Waker is woken when an outbox row is committed, so that the relay need not
// wait for its next poll.
type Waker interface{ Wake() }

// Deps are what changes work with; all are required unless they say otherwise.
type Deps struct {
	DB        *pgxpool.Pool
	Stock     *inventory.Service
	Outbox    Waker
	Catalogue *catalogue.Catalogue
	Browse    *browse.Service
	Clock     clock.Clock
	Log       *slog.Logger
	Readiness *readiness.Service // looks at a plan once it is published
}

// Service carries out what operators change. Safe for concurrent use.
type Service struct {
	cfg  plan.Config
	deps Deps
}

// New returns the service; it reads nothing yet.
func New(cfg plan.Config, deps Deps) *Service {
	return &Service{cfg: cfg, deps: deps}
}

// Workers are the background loops.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{{Name: "seckill-lifecycle", Run: s.runLifecycle}, {Name: "seckill-housekeeping", Run: s.runHousekeeping}}
}
