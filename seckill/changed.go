package seckill

import (
	"context"
	"encoding/json"
	"fmt"

	"stampede/platform/store/bus"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/seckillevent"
)

// changeSubscription repeats the work that a change's own request does after
// its commit until it succeeds: it writes views and brings stock changes into
// Redis. One instance does it. All of the work is idempotent, so it needs no
// inbox.
func (s *Service) changeSubscription() bus.Subscription {
	return bus.Subscription{
		Name: "seckill-views", Filter: seckillevent.SubjectChanged,
		Handle: func(ctx context.Context, m bus.Msg) error {
			var changed seckillevent.Changed
			if err := json.Unmarshal(m.Data, &changed); err != nil {
				return fmt.Errorf("seckill: decode change: %w", err)
			}
			if err := s.Browse.Sync(ctx, changed.ActivityID); err != nil {
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
