package change

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/store/bus"
	"stampede/seckill/browse"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
	"stampede/seckill/readiness"
	"stampede/seckill/seckillevent"
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

// Subscription repeats the work that a change's own request does after
// its commit until it succeeds: it writes views and brings stock changes into
// Redis. One instance does it. All of the work is idempotent, so it needs no
// inbox.
func (s *Service) Subscription() bus.Subscription {
	return bus.Subscription{
		Name: "seckill-views", Filter: seckillevent.SubjectChanged,
		Handle: func(ctx context.Context, m bus.Msg) error {
			var changed seckillevent.Changed
			if err := json.Unmarshal(m.Data, &changed); err != nil {
				return fmt.Errorf("change: decode change: %w", err)
			}
			if err := s.deps.Browse.Sync(ctx, changed.ActivityID); err != nil {
				return err
			}
			return s.applyAll(ctx, changed.ActivityID)
		},
	}
}

// applyAll brings the stock changes of an activity's items into Redis.
func (s *Service) applyAll(ctx context.Context, activityID int64) error {
	items, err := seckilldb.New(s.deps.DB).ItemsOf(ctx, []int64{activityID})
	if err != nil {
		return fmt.Errorf("change: read items of activity %d: %w", activityID, err)
	}
	for i := range items {
		if err := s.deps.Stock.Apply(ctx, items[i].ID); err != nil {
			return err
		}
	}
	return nil
}
