package browse

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// renew rewrites all views after a Redis server took over from another one, or
// restarted. The server may lack the last writes: it may show an activity as it
// was before a change, or a deleted one. It cannot be known which views are
// outdated, so all are rewritten; a view from a newer writer is kept.
func (v *store) renew(ctx context.Context, server redis.Cmdable) error {
	published, err := v.writeAll(ctx)
	if err != nil {
		return err
	}
	strangers, err := v.shownBeside(ctx, server, published)
	if err != nil {
		return err
	}
	activities := make(map[int64]bool)
	for _, id := range strangers {
		shown, ok, err := v.session(ctx, id)
		if err != nil {
			return err
		}
		if !ok { // only the list has it
			if err := v.redis.ZRem(ctx, viewIndexKey, id).Err(); err != nil {
				return fmt.Errorf("seckill: withdraw session from index: %w", err)
			}
			continue
		}
		activity := int64(shown.ActivityID)
		// The record by which sync finds views to withdraw may have been lost.
		if err := v.redis.SAdd(ctx, viewOfActivityKey(activity), id).Err(); err != nil {
			return fmt.Errorf("seckill: record session view: %w", err)
		}
		activities[activity] = true
	}
	for id := range activities {
		if err := v.sync(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// shownBeside lists the sessions that the server or the index has but that are
// not published.
func (v *store) shownBeside(ctx context.Context, server redis.Cmdable, published map[int64]bool) (beside []int64, err error) {
	members, err := v.redis.ZRange(ctx, viewIndexKey, 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("seckill: read view index: %w", err)
	}
	keys := server.Scan(ctx, 0, viewKeyPrefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		members = append(members, strings.TrimPrefix(keys.Val(), viewKeyPrefix))
	}
	if err := keys.Err(); err != nil {
		return nil, fmt.Errorf("seckill: list session views: %w", err)
	}
	for _, member := range members {
		id, err := strconv.ParseInt(member, 10, 64)
		if err == nil && !published[id] { // viewIndexWhole is not a number
			beside = append(beside, id)
		}
	}
	return beside, nil
}
