package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/edge/idempotency"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/store/pulse"
	"stampede/platform/watch/audit"
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
	Standby   *pg.Standby  // reads the list of reservations
	Pulse     *pulse.Pulse // nil: the lifecycle asks itself
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
	cleanUp := app.Loop{Every: housekeepingEvery, Do: s.keepHouse, Log: s.deps.Log, Failed: "cleanup of ended sales failed"}
	return []app.Worker{{Name: "seckill-lifecycle", Run: s.runLifecycle}, {Name: "seckill-housekeeping", Run: cleanUp.Run}}
}

// Subscription repeats the work that a change's own request does after
// its commit until it succeeds: it writes views, removes the keys of deleted
// items and brings stock changes into Redis. One instance does it. All of the work
// is idempotent, so it needs no inbox.
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
			return errors.Join(s.forgetAll(ctx, changed), s.applyAll(ctx, changed.ActivityID))
		},
	}
}

// forgetAll removes from Redis what no stock row names any more, under both names
// that an item's keys may have had.
func (s *Service) forgetAll(ctx context.Context, changed seckillevent.Changed) error {
	for _, id := range changed.Forgotten {
		for _, perActivity := range []bool{false, true} {
			// No Load writes meanwhile what looked deleted.
			if err := s.deps.Stock.UnderLease(ctx, id, func(ctx context.Context, _ int64) error {
				_, err := s.deps.Stock.ForgetDeleted(ctx, inventory.Item{ID: id, ActivityID: changed.ActivityID, PerActivity: perActivity})
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
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

const (
	// lifecycleEvery is how late a status may be. Nothing waits for it: windows
	// are decided item by item in Redis, and an operator's action updates the
	// status itself.
	lifecycleEvery = time.Second
	// advanceDue is whether a transition is due, see StartDue and EndDue.
	advanceDue = `EXISTS (SELECT FROM seckill.activities a WHERE a.status = 'running' AND a.ends_at <= now()
	OR a.status = 'scheduled' AND (SELECT min(s.opens_at) FROM seckill.sessions s WHERE s.activity_id = a.id) <= now())`
	// housekeepingEvery is often enough for a table that grows by a row per
	// creating request, and for entries of a few bytes in Redis.
	housekeepingEvery = time.Hour
)

// runLifecycle makes due transitions by Postgres's clock until ctx ends. Every
// instance runs it; a conditional update lets one of them win.
func (s *Service) runLifecycle(ctx context.Context) error {
	if !s.cfg.CanPay {
		s.deps.Log.WarnContext(ctx, "no payment provider is set up: only free items can be published, and open orders cannot be paid")
	}
	return app.Loop{Every: lifecycleEvery, Due: s.deps.Pulse.Due("lifecycle", advanceDue), Do: s.advanceAll, Log: s.deps.Log, Failed: "activity transitions failed"}.Run(ctx)
}

func (s *Service) keepHouse(ctx context.Context) error {
	_, err := idempotency.Forget(ctx, s.deps.DB)
	return errors.Join(err, s.deps.Browse.Trim(ctx, s.deps.Clock.Now().Add(-plan.PublishedFor)))
}

// advanceAll makes the transitions that are due and returns when they are
// committed.
func (s *Service) advanceAll(ctx context.Context) error {
	moved := 0
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) (err error) {
		moved, err = advance(ctx, tx, 0)
		return err
	})
	if err == nil && moved > 0 {
		s.deps.Outbox.Wake()
	}
	return err
}

// advance starts and ends what is due by the clock, one activity or, with 0,
// all of them, and returns the number of transitions. An activity whose whole
// sale passed while no instance ran is started and ended by one call.
func advance(ctx context.Context, tx pgx.Tx, activityID int64) (int, error) {
	q := seckilldb.New(tx)
	started, err := q.StartDue(ctx, activityID)
	if err != nil {
		return 0, fmt.Errorf("change: start due activities: %w", err)
	}
	ended, err := q.EndDue(ctx, activityID)
	if err != nil {
		return 0, fmt.Errorf("change: end due activities: %w", err)
	}
	for _, id := range started {
		if err := recordTransition(ctx, tx, id, "activity.start", plan.StatusScheduled, plan.StatusRunning); err != nil {
			return 0, err
		}
	}
	for _, id := range ended {
		if err := recordTransition(ctx, tx, id, "activity.end", plan.StatusRunning, plan.StatusEnded); err != nil {
			return 0, err
		}
	}
	return len(started) + len(ended), nil
}

// recordTransition records a transition that time made. Its actor is 0, unless an
// operator's request made the transition before the worker.
func recordTransition(ctx context.Context, tx pgx.Tx, id int64, name, from, to string) error {
	if err := audit.Record(ctx, tx, name, plan.ActivitySubject(id), edited(map[string]string{"status": from}, map[string]string{"status": to})); err != nil {
		return err
	}
	_, err := outbox.Append(ctx, tx, seckillevent.SubjectChanged, seckillevent.Changed{ActivityID: id})
	return err
}
