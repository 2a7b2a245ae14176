package seckill

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/audit"
	"stampede/platform/idempotency"
	"stampede/platform/outbox"
	"stampede/platform/pg"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/seckillevent"
)

const (
	// lifecycleEvery is how late a status may be. Nothing waits for it: windows
	// are decided item by item in Redis, and an operator's action brings the
	// status up to date itself.
	lifecycleEvery = time.Second
	// housekeepingEvery is often enough for a table that grows by a row per
	// creating request.
	housekeepingEvery = time.Hour
)

// runLifecycle moves activities on by Postgres's clock until ctx ends. Every
// instance runs it; a conditional update lets one of them win.
func (s *Service) runLifecycle(ctx context.Context) error {
	tick := time.NewTicker(lifecycleEvery)
	defer tick.Stop()
	var swept time.Time
	for {
		if err := s.advanceAll(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "activities not moved on", "error", err)
		}
		if time.Since(swept) >= housekeepingEvery {
			swept = time.Now()
			s.keepHouse(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// keepHouse forgets what nobody will ask for any more.
func (s *Service) keepHouse(ctx context.Context) {
	if _, err := idempotency.Forget(ctx, s.deps.DB); err != nil && ctx.Err() == nil {
		s.deps.Log.WarnContext(ctx, "old idempotency keys not forgotten", "error", err)
	}
	if err := s.forgetAdmissions(ctx); err != nil && ctx.Err() == nil {
		s.deps.Log.WarnContext(ctx, "old admission rates not forgotten", "error", err)
	}
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
// all of them, and says how many transitions that were. One that slept through
// its whole sale is started and ended by one call.
func advance(ctx context.Context, tx pgx.Tx, activityID int64) (int, error) {
	q := seckilldb.New(tx)
	started, err := q.StartDue(ctx, activityID)
	if err != nil {
		return 0, fmt.Errorf("seckill: start due activities: %w", err)
	}
	ended, err := q.EndDue(ctx, activityID)
	if err != nil {
		return 0, fmt.Errorf("seckill: end due activities: %w", err)
	}
	for _, id := range started {
		if err := announceMove(ctx, tx, id, "activity.start", statusScheduled, statusRunning); err != nil {
			return 0, err
		}
	}
	for _, id := range ended {
		if err := announceMove(ctx, tx, id, "activity.end", statusRunning, statusEnded); err != nil {
			return 0, err
		}
	}
	return len(started) + len(ended), nil
}

// announceMove records a transition that time made. Its actor is 0 unless an
// operator's request came first and made it.
func announceMove(ctx context.Context, tx pgx.Tx, id int64, name, from, to string) error {
	if err := audit.Record(ctx, tx, name, activitySubject(id), map[string]string{"from": from, "to": to}); err != nil {
		return err
	}
	_, err := outbox.Append(ctx, tx, seckillevent.SubjectChanged, seckillevent.Changed{ActivityID: id})
	return err
}
