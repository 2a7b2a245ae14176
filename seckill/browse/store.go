package browse

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"
)

//go:embed put.lua
var putSource string

var putScript = redis.NewScript(putSource)

// store writes the views that shoppers browse into Redis and reads them from
// there. It reads the plan when something changed and when Redis turns out to
// have lost a view, never because of an ordinary browse request. Safe for
// concurrent use, also by several instances: each view carries its activity's
// revision.
type store struct {
	plan     Plan
	redis    redis.UniversalClient
	now      func() time.Time
	log      *slog.Logger
	rebuilds singleflight.Group
}

// rebuildTimeout bounds a rebuild, which takes a handful of queries and a
// command per session.
const rebuildTimeout = 10 * time.Second

// sync writes an activity's current plan to Redis.
func (v *store) sync(ctx context.Context, activityID int64) error {
	a, visible, err := v.plan.Activity(ctx, activityID)
	if err != nil {
		return err
	}
	if !visible {
		return v.withdraw(ctx, activityID, math.MaxInt64, nil)
	}
	return v.write(ctx, &a)
}

// write puts every session of an activity and withdraws those that it no longer
// has.
func (v *store) write(ctx context.Context, a *Activity) error {
	kept := make(map[string]bool, len(a.Sessions))
	for i := range a.Sessions {
		session := &a.Sessions[i]
		id := int64(session.ID)
		kept[session.ID.String()] = true
		fields, err := session.fields()
		if err != nil {
			return err
		}
		args := append([]any{a.Revision, a.ForgetAt.UnixMilli()}, fields...)
		written, err := putScript.Run(ctx, v.redis, []string{viewKey(id)}, args...).Int()
		if err != nil {
			return fmt.Errorf("seckill: write session view: %w", err)
		}
		if written == 0 {
			continue // the writer of the newer view has indexed it too
		}
		score := float64(time.Time(session.ClosesAt).UnixMilli())
		if err := v.redis.ZAdd(ctx, viewIndexKey, redis.Z{Score: score, Member: id}).Err(); err != nil {
			return fmt.Errorf("seckill: index session view: %w", err)
		}
		// Recorded last: an older writer that finds this record also finds the newer view, and leaves both
		// alone.
		if err := v.redis.SAdd(ctx, viewOfActivityKey(a.ID), id).Err(); err != nil {
			return fmt.Errorf("seckill: record session view: %w", err)
		}
	}
	if err := v.redis.PExpireAt(ctx, viewOfActivityKey(a.ID), a.ForgetAt).Err(); err != nil {
		return fmt.Errorf("seckill: set expiry of session views: %w", err)
	}
	return v.withdraw(ctx, a.ID, a.Revision, kept)
}

// withdraw removes the views of an activity except the kept ones. For a while a
// tombstone in their place refuses older views that are still on their way.
func (v *store) withdraw(ctx context.Context, activityID, revision int64, kept map[string]bool) error {
	written, err := v.redis.SMembers(ctx, viewOfActivityKey(activityID)).Result()
	if err != nil {
		return fmt.Errorf("seckill: list session views: %w", err)
	}
	until := v.now().Add(viewGoneKept).UnixMilli() // Redis expires it by its own clock
	for _, member := range written {
		if kept[member] {
			continue
		}
		gone, err := putScript.Run(ctx, v.redis, []string{viewKeyPrefix + member}, revision, until, viewGoneField, 1).Int()
		if err != nil {
			return fmt.Errorf("seckill: withdraw session view: %w", err)
		}
		if gone == 0 {
			continue // a newer writer put it there
		}
		if err := v.redis.ZRem(ctx, viewIndexKey, member).Err(); err != nil {
			return fmt.Errorf("seckill: withdraw session from index: %w", err)
		}
		if err := v.redis.SRem(ctx, viewOfActivityKey(activityID), member).Err(); err != nil {
			return fmt.Errorf("seckill: delete record of session view: %w", err)
		}
	}
	return nil
}

// ensure rebuilds every view if Redis has lost them, which the index tells. It
// is cheap when nothing is lost.
func (v *store) ensure(ctx context.Context) error {
	err := v.redis.ZScore(ctx, viewIndexKey, viewIndexWhole).Err()
	if err == nil {
		return nil
	}
	if !errors.Is(err, redis.Nil) {
		return fmt.Errorf("seckill: check view index: %w", err)
	}
	return v.coalesced(ctx, "all", v.rebuild)
}

// rebuild writes the views of everything published and marks the index as
// complete.
func (v *store) rebuild(ctx context.Context) error {
	_, err := v.writeAll(ctx)
	return err
}

// writeAll does the work of rebuild and returns which sessions are published.
func (v *store) writeAll(ctx context.Context) (published map[int64]bool, err error) {
	all, err := v.plan.Activities(ctx)
	if err != nil {
		return nil, err
	}
	published = make(map[int64]bool)
	for i := range all {
		if err := v.write(ctx, &all[i]); err != nil {
			return nil, err
		}
		for k := range all[i].Sessions {
			published[int64(all[i].Sessions[k].ID)] = true
		}
	}
	if err := v.redis.ZAdd(ctx, viewIndexKey, redis.Z{Score: math.Inf(1), Member: viewIndexWhole}).Err(); err != nil {
		return nil, fmt.Errorf("seckill: mark view index complete: %w", err)
	}
	v.log.InfoContext(ctx, "browse views rebuilt", "activities", len(all))
	return published, nil
}

// restore rewrites one activity's views, once for all concurrent callers that
// miss one.
func (v *store) restore(ctx context.Context, activityID int64) error {
	return v.coalesced(ctx, strconv.FormatInt(activityID, 10), func(ctx context.Context) error { return v.sync(ctx, activityID) })
}

// coalesced runs fn once for all callers that arrive while it runs.
func (v *store) coalesced(ctx context.Context, key string, fn func(context.Context) error) error {
	_, err := together(ctx, &v.rebuilds, key, rebuildTimeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// trim removes index entries of sessions that closed before a moment.
func (v *store) trim(ctx context.Context, closedBefore time.Time) error {
	before := strconv.FormatInt(closedBefore.UnixMilli(), 10)
	if err := v.redis.ZRemRangeByScore(ctx, viewIndexKey, "-inf", "("+before).Err(); err != nil {
		return fmt.Errorf("seckill: trim view index: %w", err)
	}
	return nil
}

// session reads one session's view; ok is false when Redis shows none.
func (v *store) session(ctx context.Context, id int64) (Session, bool, error) {
	hash, err := v.redis.HGetAll(ctx, viewKey(id)).Result()
	if err != nil {
		return Session{}, false, fmt.Errorf("seckill: read session view: %w", err)
	}
	return parseView(hash)
}

// item reads one item's view and its session's, without the others.
func (v *store) item(ctx context.Context, sessionID, itemID int64) (Session, bool, error) {
	field := viewItemPrefix + strconv.FormatInt(itemID, 10)
	r, err := v.redis.HMGet(ctx, viewKey(sessionID), viewSessionField, field).Result()
	if err != nil {
		return Session{}, false, fmt.Errorf("seckill: read item view: %w", err)
	}
	header, ok1 := r[0].(string)
	raw, ok2 := r[1].(string)
	if !ok1 || !ok2 {
		return Session{}, false, nil
	}
	return parseView(map[string]string{viewSessionField: header, field: raw})
}

// headers reads the sessions that close at or after a moment, without their
// items: at most limit of them, those that close first. whole is false when
// Redis has lost views, and the list may be incomplete.
func (v *store) headers(ctx context.Context, closesFrom time.Time, limit int64) (list []Session, whole bool, err error) {
	pipe := v.redis.Pipeline()
	mark := pipe.ZScore(ctx, viewIndexKey, viewIndexWhole)
	index := pipe.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: viewIndexKey, ByScore: true, Start: closesFrom.UnixMilli(), Stop: "(+inf", Count: limit,
	})
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, false, fmt.Errorf("seckill: read view index: %w", err)
	}
	reads := make([]*redis.SliceCmd, len(index.Val()))
	if len(reads) == 0 {
		return nil, mark.Err() == nil, nil
	}
	pipe = v.redis.Pipeline()
	for i, member := range index.Val() {
		reads[i] = pipe.HMGet(ctx, viewKeyPrefix+member, viewSessionField, viewGoneField)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, false, fmt.Errorf("seckill: read session views: %w", err)
	}
	whole = mark.Err() == nil
	for _, r := range reads {
		raw, ok := r.Val()[0].(string)
		if !ok {
			// In the index and yet missing: lost, unless it is being withdrawn
			// right now.
			whole = whole && r.Val()[1] != nil
			continue
		}
		stored, _, err := parseView(map[string]string{viewSessionField: raw})
		if err != nil {
			return nil, false, err
		}
		list = append(list, stored)
	}
	return list, whole, nil
}

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
