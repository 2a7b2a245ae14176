package seckill

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"stampede/platform/bus"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/seckillevent"
)

const (
	// viewsEvery is how soon views come back by themselves after Redis lost them.
	viewsEvery = 2 * time.Second
	// trimEvery keeps the index from growing; an entry too many costs a few bytes.
	trimEvery = time.Hour
)

// viewSubscription repeats what a change's own request does after its commit,
// until it has worked: views are written, stock changes brought into Redis. One
// instance does it. Everything here may be done again and again, so it needs no
// inbox.
func (s *Service) viewSubscription() bus.Subscription {
	return bus.Subscription{
		Name: "seckill-views", Filter: seckillevent.SubjectChanged,
		Handle: func(ctx context.Context, m bus.Msg) error {
			var changed seckillevent.Changed
			if err := json.Unmarshal(m.Data, &changed); err != nil {
				return fmt.Errorf("seckill: decode change: %w", err)
			}
			if err := s.views.sync(ctx, changed.ActivityID); err != nil {
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
		return fmt.Errorf("seckill: read items of activity %d: %w", activityID, err)
	}
	for i := range items {
		if err := s.deps.Stock.Apply(ctx, items[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// runViews writes the views again whenever Redis has lost them, until ctx ends.
func (s *Service) runViews(ctx context.Context) error {
	tick := time.NewTicker(viewsEvery)
	defer tick.Stop()
	var trimmed time.Time
	for {
		err := s.views.ensure(ctx)
		if err == nil && time.Since(trimmed) >= trimEvery {
			trimmed = time.Now()
			err = s.views.trim(ctx, s.deps.Clock.Now())
		}
		if err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "browse views not looked after", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
