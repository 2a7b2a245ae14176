package browse

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// renew makes the views true again after a Redis server took over from another
// one, or started again. It may lack what was written last: it shows an activity
// as it was before a change, or one that is deleted. Nobody can see which ones
// these are, so all are written again; a view that a newer writer put there stays.
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
		if !ok { // the list alone came back
			if err := v.redis.ZRem(ctx, viewIndexKey, id).Err(); err != nil {
				return fmt.Errorf("seckill: withdraw session from index: %w", err)
			}
			continue
		}
		activity := int64(shown.ActivityID)
		// The note by which sync finds what to withdraw may not have come back.
		if err := v.redis.SAdd(ctx, viewOfActivityKey(activity), id).Err(); err != nil {
			return fmt.Errorf("seckill: note session view: %w", err)
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

// shownBeside lists the sessions that the server or the index has and that are
// not among the published ones.
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
		if err == nil && !published[id] { // viewIndexWhole is no number
			beside = append(beside, id)
		}
	}
	return beside, nil
}
