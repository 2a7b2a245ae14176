// Package rollback detects that Postgres went back in time, behind the state of Redis.
//
// Redis is filled from Postgres, so it can be ahead of it only if Postgres was
// restored from a backup or a replica without the last commits took over. Redis
// then keeps units for orders that no longer exist and shows them to their
// shoppers as paid. Everything of ours in Redis can be rebuilt from Postgres, so
// the remedy is to delete it: every item is loaded again, every view and cache
// refills. What other programs keep in the same Redis stays.
//
// Every server counts heartbeats in a row of Postgres, and Redis remembers the
// last one. A step back of less than two heartbeats may stay undetected;
// `stampede verify` finds the effects of such a step.
package rollback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
	"stampede/platform/store/pg"
	"stampede/platform/store/rollback/internal/rollbackdb"
)

const (
	// markKey is where Redis remembers: "<id of the database>:<heartbeat>".
	markKey = "heartbeat"
	// aheadKey is "<id of the database>:<heartbeats by which it went back>", from when a running
	// server sees that until a start has emptied Redis: Postgres counts on, and soon passes markKey's.
	aheadKey = "heartbeat-ahead"
	// Every is how often a server counts a heartbeat. It bounds how far
	// Postgres can go back undetected; each heartbeat costs a commit.
	Every = 2 * time.Second
	// exitForeign is the exit code for a Redis that belongs to another
	// database; it follows the codes of unusable stores.
	exitForeign = 37
	// subject is the alarm's subject.
	subject = "postgres"
)

// foreignError refuses a Redis that was filled from another database. Its keys
// have the same names, so they would be mistaken for this database's.
type foreignError struct{}

func (foreignError) Error() string {
	return "Redis contains the sale of another database: set --redis-url (STAMPEDE_REDIS_URL) to a separate Redis, or empty this one (redis-cli FLUSHDB) if that database is gone."
}

// ExitCode returns the process's exit code.
func (foreignError) ExitCode() int { return exitForeign }

// Detector compares Postgres with what Redis remembers of it.
type Detector struct {
	db    *pgxpool.Pool
	rdb   redis.UniversalClient
	own   []string // prefixes of the keys to delete
	alarm Raise
	log   *slog.Logger
	last  int64 // the highest heartbeat this process has seen

	// behind is the number of heartbeats by which Postgres went back since
	// Open, 0 if it did not.
	behind int64
	noted  bool // in Redis; once, because a start may have emptied it since
	raised bool // the alarm was raised for it
}

// Raise raises an alarm about a subject.
type Raise func(ctx context.Context, db pg.DB, subject, detail string) error

// Start detects a rollback once, as Open does, and then sends heartbeats while a
// runs.
func Start(ctx context.Context, a *app.App, db *pgxpool.Pool, rdb redis.UniversalClient, own []string, raise Raise, log *slog.Logger) error {
	d, err := Open(ctx, db, rdb, own, raise, log)
	if err == nil {
		a.Go("rollback detector", app.Worker{Name: "rollback-detector", Run: d.Run})
	}
	return err
}

// Open compares the two before anything else reads Redis. If Postgres went back
// behind Redis, it raises an alarm and deletes the keys with the prefixes own. It refuses a Redis that
// was filled from another database, with exit code 37. Several instances may
// call Open concurrently: anything that one has filled meanwhile is filled
// again.
func Open(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient, own []string, raise Raise, log *slog.Logger) (*Detector, error) {
	d := &Detector{db: db, rdb: rdb, own: own, alarm: raise, log: log}
	id, seen, err := d.remembered(ctx, markKey)
	if err != nil {
		return nil, err
	}
	wentBack, behind, err := d.remembered(ctx, aheadKey)
	if err != nil {
		return nil, err
	}
	// Empty Redis before this start counts a heartbeat: otherwise starts that
	// fail here would let Postgres catch up with the heartbeat that Redis
	// remembers.
	mine, err := rollbackdb.New(db).Heartbeat(ctx)
	if err != nil {
		return nil, fmt.Errorf("rollback: read heartbeat from Postgres: %w", err)
	}
	switch {
	case id == "":
	case id != mine.ID:
		return nil, foreignError{}
	case seen > mine.Beat || wentBack == mine.ID:
		if err := d.empty(ctx, max(seen-mine.Beat, behind)); err != nil {
			return nil, err
		}
	}
	if err := d.count(ctx); err != nil {
		return nil, err
	}
	if wentBack != "" {
		if err := rdb.Del(ctx, aheadKey).Err(); err != nil {
			return nil, fmt.Errorf("rollback: delete %s: %w", aheadKey, err)
		}
	}
	return d, nil
}

// Run counts heartbeats until ctx ends. If Postgres goes back meanwhile, Run
// only raises the alarm: this process's memory also contains the lost state, so
// only a restart repairs it.
func (d *Detector) Run(ctx context.Context) error {
	return app.Loop{Every: Every, Log: d.log, Failed: "rollback heartbeat failed", Do: d.count}.Run(ctx)
}

func (d *Detector) count(ctx context.Context) error {
	counted, err := rollbackdb.New(d.db).CountHeartbeat(ctx)
	if err != nil {
		return fmt.Errorf("rollback: count heartbeat in Postgres: %w", err)
	}
	if counted.Beat <= d.last && d.behind == 0 {
		d.behind = d.last - counted.Beat + 1
		d.log.ErrorContext(ctx, "postgres went back in time", "heartbeats", d.behind)
	}
	if d.behind > 0 {
		return errors.Join(
			once(&d.noted, func() error { return d.remember(ctx, aheadKey, counted.ID, d.behind) }),
			once(&d.raised, func() error {
				return d.alarm(ctx, d.db, subject, "Postgres went back by "+heartbeats(d.behind)+
					" while a server was running. Redis still contains what was sold in between.")
			}),
		)
	}
	d.last = counted.Beat
	return d.remember(ctx, markKey, counted.ID, counted.Beat)
}

// once does what has not succeeded yet.
func once(done *bool, do func() error) error {
	if *done {
		return nil
	}
	err := do()
	*done = err == nil
	return err
}

// empty deletes our keys, on every primary of a cluster. It raises the alarm
// first: an empty Redis no longer shows that there was something to report. The
// mark stays until a heartbeat is counted, so that the next start completes what
// this one cannot.
func (d *Detector) empty(ctx context.Context, behind int64) error {
	err := d.alarm(ctx, d.db, subject, "Postgres is older than the state Redis was filled from, by "+heartbeats(behind)+
		". Redis was emptied and is being refilled from Postgres.")
	if err != nil {
		return err
	}
	if cluster, ok := d.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return d.deleteOwn(ctx, node) })
	} else {
		err = d.deleteOwn(ctx, d.rdb)
	}
	if err != nil {
		return fmt.Errorf("rollback: empty Redis, which is ahead of Postgres: %w", err)
	}
	d.log.WarnContext(ctx, "postgres went back in time, redis was emptied", "heartbeats", behind)
	return nil
}

// scanCount is how many keys one step looks at: a fraction of a millisecond of
// Redis's time, and a pipeline of as many deletions, each of which only unlinks.
const scanCount = 1000

// deleteOwn deletes our keys on one server.
func (d *Detector) deleteOwn(ctx context.Context, server redis.Cmdable) error {
	for cursor := uint64(0); ; {
		keys, next, err := server.Scan(ctx, cursor, "", scanCount).Result()
		if err != nil {
			return err
		}
		_, err = server.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, key := range keys {
				if slices.ContainsFunc(d.own, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
					pipe.Unlink(ctx, key) // one by one: in a cluster they lie in different slots
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// heartbeats formats how far Postgres went back; several servers count faster than one.
func heartbeats(n int64) string {
	return fmt.Sprintf("%d heartbeats (each server counts one every %s)", n, Every)
}

// remembered returns what Redis remembers under a key; id is empty if it remembers nothing.
func (d *Detector) remembered(ctx context.Context, key string) (id string, beats int64, err error) {
	raw, err := d.rdb.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("rollback: read %s: %w", key, err)
	}
	id, count, _ := strings.Cut(raw, ":")
	if beats, err = strconv.ParseInt(count, 10, 64); err != nil {
		return "", 0, fmt.Errorf("rollback: read %s: %w", key, err)
	}
	return id, beats, nil
}

// remember writes a key of Redis after the commit: the mark may lag behind Postgres and is
// never ahead of it.
func (d *Detector) remember(ctx context.Context, key, id string, beats int64) error {
	if err := d.rdb.Set(ctx, key, id+":"+strconv.FormatInt(beats, 10), 0).Err(); err != nil {
		return fmt.Errorf("rollback: write %s: %w", key, err)
	}
	return nil
}
