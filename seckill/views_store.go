package seckill

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"stampede/seckill/internal/seckilldb"
)

//go:embed views_put.lua
var viewsPutSource string

var viewsPut = redis.NewScript(viewsPutSource)

// viewStore writes what shoppers browse into Redis and reads it from there.
// Postgres is read when something changed and when Redis turns out to have lost
// a view; never because somebody looks at one. Safe for concurrent use, also by
// several instances: each view carries its activity's revision.
type viewStore struct {
	deps     Deps
	rebuilds singleflight.Group
}

// rebuildTimeout bounds what a rebuild may take; it reads a handful of queries
// and writes a command per session.
const rebuildTimeout = 10 * time.Second

// sync makes Redis show an activity as Postgres has it now.
func (v *viewStore) sync(ctx context.Context, activityID int64) error {
	var tree []branch
	err := snapshot(ctx, v.deps.DB, func(q *seckilldb.Queries) error {
		row, err := q.Activity(ctx, activityID)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Status == statusDraft {
			return nil // deleted: nothing of it is to be seen
		}
		if err != nil {
			return fmt.Errorf("seckill: read activity for views: %w", err)
		}
		tree, err = readTree(ctx, q, []seckilldb.SeckillActivity{row})
		return err
	})
	if err != nil {
		return err
	}
	if len(tree) == 0 {
		return v.withdraw(ctx, activityID, math.MaxInt64, nil)
	}
	return v.write(ctx, &tree[0])
}

// write puts every session of an activity and takes away those that it has no
// more.
func (v *viewStore) write(ctx context.Context, b *branch) error {
	kept := make(map[string]bool, len(b.sessions))
	forgetAt := b.activity.EndsAt.Add(publishedFor)
	for i := range b.sessions {
		id := b.sessions[i].session.ID
		kept[strconv.FormatInt(id, 10)] = true
		stored := storable(&b.activity, &b.sessions[i])
		fields, err := stored.fields()
		if err != nil {
			return err
		}
		args := append([]any{b.activity.Revision, forgetAt.UnixMilli()}, fields...)
		written, err := viewsPut.Run(ctx, v.deps.Redis, []string{viewKey(id)}, args...).Int()
		if err != nil {
			return fmt.Errorf("seckill: write session view: %w", err)
		}
		if written == 0 {
			continue // whoever wrote the newer one has indexed it too
		}
		score := float64(b.sessions[i].session.ClosesAt.UnixMilli())
		if err := v.deps.Redis.ZAdd(ctx, viewIndexKey, redis.Z{Score: score, Member: id}).Err(); err != nil {
			return fmt.Errorf("seckill: index session view: %w", err)
		}
		// Noted last: an older writer that finds the note finds the newer view too, and leaves both alone.
		if err := v.deps.Redis.SAdd(ctx, viewOfActivityKey(b.activity.ID), id).Err(); err != nil {
			return fmt.Errorf("seckill: note session view: %w", err)
		}
	}
	if err := v.deps.Redis.PExpireAt(ctx, viewOfActivityKey(b.activity.ID), forgetAt).Err(); err != nil {
		return fmt.Errorf("seckill: date session views: %w", err)
	}
	return v.withdraw(ctx, b.activity.ID, b.activity.Revision, kept)
}

// withdraw takes away the views of an activity that are not kept. What stands
// in their place for a while refuses older views that are still on their way.
func (v *viewStore) withdraw(ctx context.Context, activityID, revision int64, kept map[string]bool) error {
	written, err := v.deps.Redis.SMembers(ctx, viewOfActivityKey(activityID)).Result()
	if err != nil {
		return fmt.Errorf("seckill: list session views: %w", err)
	}
	until := v.deps.Clock.Now().Add(viewGoneKept).UnixMilli() // Redis forgets it by its own clock
	for _, member := range written {
		if kept[member] {
			continue
		}
		gone, err := viewsPut.Run(ctx, v.deps.Redis, []string{viewKeyPrefix + member}, revision, until, viewGoneField, 1).Int()
		if err != nil {
			return fmt.Errorf("seckill: withdraw session view: %w", err)
		}
		if gone == 0 {
			continue // a newer writer put it there
		}
		if err := v.deps.Redis.ZRem(ctx, viewIndexKey, member).Err(); err != nil {
			return fmt.Errorf("seckill: withdraw session from index: %w", err)
		}
		if err := v.deps.Redis.SRem(ctx, viewOfActivityKey(activityID), member).Err(); err != nil {
			return fmt.Errorf("seckill: forget session view: %w", err)
		}
	}
	return nil
}

// ensure rebuilds every view if Redis has lost them, which it tells by the
// index. It is cheap when nothing is lost.
func (v *viewStore) ensure(ctx context.Context) error {
	err := v.deps.Redis.ZScore(ctx, viewIndexKey, viewIndexWhole).Err()
	if err == nil {
		return nil
	}
	if !errors.Is(err, redis.Nil) {
		return fmt.Errorf("seckill: look at view index: %w", err)
	}
	return v.coalesced(ctx, "all", v.rebuild)
}

// rebuild writes the views of everything published and marks the index whole.
func (v *viewStore) rebuild(ctx context.Context) error {
	_, err := v.writeAll(ctx)
	return err
}

// writeAll is rebuild, and tells which sessions are published.
func (v *viewStore) writeAll(ctx context.Context) (published map[int64]bool, err error) {
	var tree []branch
	err = snapshot(ctx, v.deps.DB, func(q *seckilldb.Queries) (err error) {
		tree, err = publishedTree(ctx, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	published = make(map[int64]bool)
	for i := range tree {
		if err := v.write(ctx, &tree[i]); err != nil {
			return nil, err
		}
		for k := range tree[i].sessions {
			published[tree[i].sessions[k].session.ID] = true
		}
	}
	if err := v.deps.Redis.ZAdd(ctx, viewIndexKey, redis.Z{Score: math.Inf(1), Member: viewIndexWhole}).Err(); err != nil {
		return nil, fmt.Errorf("seckill: mark view index whole: %w", err)
	}
	v.deps.Log.InfoContext(ctx, "browse views rebuilt", "activities", len(tree))
	return published, nil
}

// restore writes one activity's views again, once for everybody who misses one
// at the same time.
func (v *viewStore) restore(ctx context.Context, activityID int64) error {
	return v.coalesced(ctx, strconv.FormatInt(activityID, 10), func(ctx context.Context) error { return v.sync(ctx, activityID) })
}

// coalesced runs fn once for all callers that come while it runs. It goes on
// when the first of them leaves, because the others still wait.
func (v *viewStore) coalesced(ctx context.Context, key string, fn func(context.Context) error) error {
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

// trim forgets index entries of sessions whose views are forgotten.
func (v *viewStore) trim(ctx context.Context, now time.Time) error {
	before := strconv.FormatInt(now.Add(-publishedFor).UnixMilli(), 10)
	if err := v.deps.Redis.ZRemRangeByScore(ctx, viewIndexKey, "-inf", "("+before).Err(); err != nil {
		return fmt.Errorf("seckill: trim view index: %w", err)
	}
	return nil
}

// session reads one session's view; ok is false when Redis shows none.
func (v *viewStore) session(ctx context.Context, id int64) (storedSession, bool, error) {
	hash, err := v.deps.Redis.HGetAll(ctx, viewKey(id)).Result()
	if err != nil {
		return storedSession{}, false, fmt.Errorf("seckill: read session view: %w", err)
	}
	return parseView(hash)
}

// item reads one item's view and its session's, without the others.
func (v *viewStore) item(ctx context.Context, sessionID, itemID int64) (storedSession, bool, error) {
	field := viewItemPrefix + strconv.FormatInt(itemID, 10)
	r, err := v.deps.Redis.HMGet(ctx, viewKey(sessionID), viewSessionField, field).Result()
	if err != nil {
		return storedSession{}, false, fmt.Errorf("seckill: read item view: %w", err)
	}
	header, ok1 := r[0].(string)
	raw, ok2 := r[1].(string)
	if !ok1 || !ok2 {
		return storedSession{}, false, nil
	}
	return parseView(map[string]string{viewSessionField: header, field: raw})
}

// headers reads the sessions that close at or after a moment, without their
// items, at most limit, those that close first. whole is false when Redis has
// lost views, and the answer may be short of some.
func (v *viewStore) headers(ctx context.Context, closesFrom time.Time, limit int64) (list []storedSession, whole bool, err error) {
	pipe := v.deps.Redis.Pipeline()
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
	pipe = v.deps.Redis.Pipeline()
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
