// Package lineage notices that Postgres went back in time under what Redis holds.
//
// Redis is filled from Postgres, so it can never be ahead of it, unless Postgres
// was restored from a backup or a replica took over that lacked the last commits.
// Redis then keeps units for orders that no longer exist and tells their shoppers
// "paid". Nothing in Redis is needed beside Postgres, so the remedy is to empty it:
// every item is loaded again, every view and cache fills itself.
//
// A row of Postgres is counted up all the time, and Redis remembers how far it was.
// A step back of less than two beats may stay unnoticed; `stampede verify`
// sees what such a step has left.
package lineage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"stampede/platform/alarm"
	"stampede/platform/app"
)

const (
	// markKey is where Redis remembers: "<id of the database>:<beat>".
	markKey = "lineage"
	// Every is how often a server counts up. It bounds how far Postgres can go back
	// without being noticed, and costs a commit each time.
	Every = 2 * time.Second
	// exitForeign is the shell's code for a Redis that belongs to another database;
	// it follows those of the stores that cannot be used.
	exitForeign = 37
	// subject is what the alarm is about.
	subject = "postgres"
)

// foreignError refuses a Redis that another database was sold from. Its keys have
// the same names, and nobody can tell what they are worth.
type foreignError struct{}

func (foreignError) Error() string {
	return "Redis holds the sale of another database: give --redis-url (STAMPEDE_REDIS_URL) a Redis of its own, or empty this one (redis-cli FLUSHDB) if that database is gone."
}

// ExitCode is for the shell.
func (foreignError) ExitCode() int { return exitForeign }

// Lineage compares Postgres with what Redis remembers of it.
type Lineage struct {
	db   *pgxpool.Pool
	rdb  redis.UniversalClient
	log  *slog.Logger
	last int64 // the highest beat this process has seen

	// behind is by how many beats Postgres went back since Open; Redis is then to
	// remember what was before. 0 means that it did not.
	behind int64
	told   bool // people were called about it
}

// Open compares the two before anything else looks at Redis, and empties Redis
// when Postgres went back behind it, with the alarm database-went-back. A Redis
// that another database was sold from is refused, with exit code 37. Several
// instances may do so at once: what one has filled meanwhile is filled again.
func Open(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient, log *slog.Logger) (*Lineage, error) {
	l := &Lineage{db: db, rdb: rdb, log: log}
	id, seen, err := l.mark(ctx)
	if err != nil {
		return nil, err
	}
	// Redis is emptied before this start counts as a beat: a start that fails here
	// would else let Postgres catch up with what Redis remembers.
	mine, beat, err := l.read(ctx, `SELECT id::text, beat FROM platform.lineage`)
	if err != nil {
		return nil, err
	}
	switch {
	case id == "":
	case id != mine:
		return nil, foreignError{}
	case seen > beat:
		if err := l.empty(ctx, seen-beat); err != nil {
			return nil, err
		}
	}
	if err := l.count(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Run counts up until ctx ends. A Postgres that goes back meanwhile is told by the
// alarm alone: what this process has in memory is of the lost time as well, so
// only a start can put it right.
func (l *Lineage) Run(ctx context.Context) error {
	return app.Loop{Every: Every, Log: l.log, Failed: "lineage not counted up", Do: l.count}.Run(ctx)
}

func (l *Lineage) count(ctx context.Context) error {
	id, beat, err := l.read(ctx, `UPDATE platform.lineage SET beat = beat + 1 RETURNING id::text, beat`)
	if err != nil {
		return err
	}
	if beat <= l.last && l.behind == 0 {
		l.behind = l.last - beat + 1
		l.log.ErrorContext(ctx, "postgres went back in time", "beats", l.behind)
	}
	if l.behind > 0 {
		return l.tell(ctx)
	}
	l.last = beat
	return l.remember(ctx, id, beat)
}

// tell calls people about a Postgres that went back since Open, once.
func (l *Lineage) tell(ctx context.Context) error {
	if l.told {
		return nil
	}
	err := l.raise(ctx, fmt.Sprintf("Postgres went back by %s while a server runs. Redis still holds what was sold in between.", beats(l.behind)))
	l.told = err == nil
	return err
}

func (l *Lineage) raise(ctx context.Context, detail string) error {
	return alarm.Raise(ctx, l.db, alarm.DatabaseWentBack, subject, detail)
}

// empty makes Redis forget, on every primary of a cluster. People are called first:
// an empty Redis does not know that there was something to tell.
func (l *Lineage) empty(ctx context.Context, behind int64) error {
	err := l.raise(ctx, fmt.Sprintf("Postgres is older than what Redis was filled from, by %s. Redis was emptied and fills itself from Postgres.", beats(behind)))
	if err != nil {
		return err
	}
	if cluster, ok := l.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.FlushDB(ctx).Err() })
	} else {
		err = l.rdb.FlushDB(ctx).Err()
	}
	if err != nil {
		return fmt.Errorf("lineage: empty Redis, which is ahead of Postgres: %w", err)
	}
	l.log.WarnContext(ctx, "postgres went back in time, redis was emptied", "beats", behind)
	return nil
}

// beats says how far it went back; several servers count faster than one.
func beats(n int64) string {
	return fmt.Sprintf("%d beats (each server counts one every %s)", n, Every)
}

// read asks Postgres for its id and beat.
func (l *Lineage) read(ctx context.Context, sql string) (id string, beat int64, err error) {
	if err = l.db.QueryRow(ctx, sql).Scan(&id, &beat); err != nil {
		return "", 0, fmt.Errorf("lineage: ask Postgres how far it is: %w", err)
	}
	return id, beat, nil
}

// mark is what Redis remembers; id is empty when that is nothing.
func (l *Lineage) mark(ctx context.Context) (id string, beat int64, err error) {
	raw, err := l.rdb.Get(ctx, markKey).Result()
	if errors.Is(err, redis.Nil) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("lineage: read %s: %w", markKey, err)
	}
	id, count, _ := strings.Cut(raw, ":")
	if beat, err = strconv.ParseInt(count, 10, 64); err != nil {
		return "", 0, fmt.Errorf("lineage: read %s: %w", markKey, err)
	}
	return id, beat, nil
}

// remember tells Redis, after the commit: it may lag behind Postgres and is never
// ahead of it.
func (l *Lineage) remember(ctx context.Context, id string, beat int64) error {
	if err := l.rdb.Set(ctx, markKey, id+":"+strconv.FormatInt(beat, 10), 0).Err(); err != nil {
		return fmt.Errorf("lineage: write %s: %w", markKey, err)
	}
	return nil
}
