package browse

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"
)

//go:embed put.lua
var putSource string

var putScript = redis.NewScript(putSource)

// store writes what shoppers browse into Redis and reads it from there. The plan
// is read when something changed and when Redis turns out to have lost a view;
// never because a shopper looks at one. Safe for concurrent use, also by several
// instances: each view carries its activity's revision.
type store struct {
	plan     Plan
	redis    redis.UniversalClient
	now      func() time.Time
	log      *slog.Logger
	rebuilds singleflight.Group
}

// rebuildTimeout bounds what a rebuild may take; it reads a handful of queries
// and writes a command per session.
const rebuildTimeout = 10 * time.Second

// sync makes Redis show an activity as it is planned.
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

// write puts every session of an activity and takes away those that it has no
// more.
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
			continue // the writer of the newer one has indexed it too
		}
		score := float64(time.Time(session.ClosesAt).UnixMilli())
		if err := v.redis.ZAdd(ctx, viewIndexKey, redis.Z{Score: score, Member: id}).Err(); err != nil {
			return fmt.Errorf("seckill: index session view: %w", err)
		}
		// Noted last: an older writer that finds the note finds the newer view too, and leaves both alone.
		if err := v.redis.SAdd(ctx, viewOfActivityKey(a.ID), id).Err(); err != nil {
			return fmt.Errorf("seckill: note session view: %w", err)
		}
	}
	if err := v.redis.PExpireAt(ctx, viewOfActivityKey(a.ID), a.ForgetAt).Err(); err != nil {
		return fmt.Errorf("seckill: date session views: %w", err)
	}
	return v.withdraw(ctx, a.ID, a.Revision, kept)
}

// withdraw takes away the views of an activity that are not kept. What stands
// in their place for a while refuses older views that are still on their way.
func (v *store) withdraw(ctx context.Context, activityID, revision int64, kept map[string]bool) error {
	written, err := v.redis.SMembers(ctx, viewOfActivityKey(activityID)).Result()
	if err != nil {
		return fmt.Errorf("seckill: list session views: %w", err)
	}
	until := v.now().Add(viewGoneKept).UnixMilli() // Redis forgets it by its own clock
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
			return fmt.Errorf("seckill: forget session view: %w", err)
		}
	}
	return nil
}

// ensure rebuilds every view if Redis has lost them, which it tells by the
// index. It is cheap when nothing is lost.
func (v *store) ensure(ctx context.Context) error {
	err := v.redis.ZScore(ctx, viewIndexKey, viewIndexWhole).Err()
	if err == nil {
		return nil
	}
	if !errors.Is(err, redis.Nil) {
		return fmt.Errorf("seckill: look at view index: %w", err)
	}
	return v.coalesced(ctx, "all", v.rebuild)
}

// rebuild writes the views of everything published and marks the index whole.
func (v *store) rebuild(ctx context.Context) error {
	_, err := v.writeAll(ctx)
	return err
}

// writeAll is rebuild, and tells which sessions are published.
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
		return nil, fmt.Errorf("seckill: mark view index whole: %w", err)
	}
	v.log.InfoContext(ctx, "browse views rebuilt", "activities", len(all))
	return published, nil
}

// restore writes one activity's views again, once for everybody who misses one
// at the same time.
func (v *store) restore(ctx context.Context, activityID int64) error {
	return v.coalesced(ctx, strconv.FormatInt(activityID, 10), func(ctx context.Context) error { return v.sync(ctx, activityID) })
}

// coalesced runs fn once for all callers that come while it runs. It goes on
// when the first of them leaves, because the others still wait.
func (v *store) coalesced(ctx context.Context, key string, fn func(context.Context) error) error {
	done := v.rebuilds.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rebuildTimeout)
		defer cancel()
		return nil, fn(ctx)
	})
	select {
	case r := <-done:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// trim forgets index entries of sessions that closed before a moment.
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
// items, at most limit, those that close first. whole is false when Redis has
// lost views, and the answer may be short of some.
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
			// Indexed and yet not there: lost, unless it is just being withdrawn.
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
