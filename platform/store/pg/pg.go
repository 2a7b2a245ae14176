// Package pg opens Postgres pools, runs transactions and applies migrations.
package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/app"
	"stampede/platform/store/pg/internal/pgdb"
)

// MinVersion is the oldest Postgres server that Stampede is tested against, as
// server_version_num.
const MinVersion = 150000

// Open connects a pool for one module. name appears in pg_stat_activity, so
// that an operator sees which module has a connection; maxConns is the module's
// whole budget, so that one module's rush cannot starve another's callbacks. Its
// sessions and locks are bounded, see sessionSettings.
func Open(ctx context.Context, url, name string, maxConns int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pg: parse database URL: %w", err)
	}
	cfg.MaxConns = maxConns
	bound(cfg.ConnConfig, "stampede "+name)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("pg: open pool for %s: %w", name, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("pg: connect for %s: %w", name, err)
	}
	return pool, nil
}

// Close closes a pool and waits until its connections are returned or ctx ends:
// a hanging query must not keep the process from exiting.
func Close(ctx context.Context, pool *pgxpool.Pool) error {
	if app.Await(ctx, pool.Close) != nil {
		return errors.New("pg: close pool: a connection is still in use")
	}
	return nil
}

// OpenPools opens one pool for each name with its number of connections; the
// process a closes them when it stops.
func OpenPools(ctx context.Context, a *app.App, url string, conns map[string]int32) (map[string]*pgxpool.Pool, error) {
	pools := make(map[string]*pgxpool.Pool, len(conns))
	for name, n := range conns {
		pool, err := Open(ctx, url, name, n)
		if err != nil {
			return nil, err
		}
		pools[name] = pool
		a.OnStop("pool "+name, func(ctx context.Context) error { return Close(ctx, pool) })
	}
	return pools, nil
}

// errReadOnly is what Writable returns for a standby or a read-only database.
var errReadOnly = errors.New("pg: reads only: a standby, or default_transaction_read_only is on")

// Writable pings Postgres and returns an error unless it takes writes. A pool's
// connections may differ while an address moves from one server to another.
func Writable(ctx context.Context, db DB) error {
	var readOnly string
	if err := db.QueryRow(ctx, `SHOW transaction_read_only`).Scan(&readOnly); err != nil {
		return fmt.Errorf("pg: ping: %w", err)
	}
	if readOnly == "on" {
		return errReadOnly
	}
	return nil
}

// Beginner is a pool or a connection.
type Beginner interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// DB is a pool, a connection or a transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Now reads Postgres's clock as it is at this moment, not at the beginning of a transaction.
func Now(ctx context.Context, db DB) (time.Time, error) { return pgdb.New(db).Now(ctx) }

// txAttempts bounds how often a transaction is retried after a deadlock or a
// serialization failure. With one lock order everywhere these are rare; five
// attempts with back-off outlast any genuine conflict.
const txAttempts = 5

// InTx runs fn in a transaction and commits it when fn returns nil. A deadlock
// (40P01) or serialization failure (40001) rolls back and runs fn again, at
// most txAttempts times, so fn must have no effect outside the transaction.
func InTx(ctx context.Context, db Beginner, fn func(tx pgx.Tx) error) error {
	return inTx(ctx, db, pgx.TxOptions{}, fn)
}

// InTxWaiting is InTx for a transaction that waits for each lock at most wait,
// rounded to milliseconds, and then fails as LockTimedOut says. The bound
// travels with BEGIN, without a round trip of its own.
func InTxWaiting(ctx context.Context, db Beginner, wait time.Duration, fn func(tx pgx.Tx) error) error {
	begin := fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d", wait.Milliseconds())
	return inTx(ctx, db, pgx.TxOptions{BeginQuery: begin}, fn)
}

// InTxPlannedOnce is InTx for statements that Postgres plans once for each connection.
// By default it plans one by key of a partitioned table for every call, to leave the
// other partitions out, which takes longer than to look into none of them when it
// runs. The setting travels with BEGIN.
func InTxPlannedOnce(ctx context.Context, db Beginner, fn func(tx pgx.Tx) error) error {
	return inTx(ctx, db, pgx.TxOptions{BeginQuery: "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan"}, fn)
}

func inTx(ctx context.Context, db Beginner, opts pgx.TxOptions, fn func(tx pgx.Tx) error) error {
	var err error
	for attempt := range txAttempts {
		if attempt > 0 {
			backoff := time.Duration(1<<attempt) * 5 * time.Millisecond
			if end := app.Sleep(ctx, backoff/2+rand.N(backoff)); end != nil { //nolint:gosec // jitter is no secret
				return errors.Join(err, end)
			}
		}
		err = once(ctx, db, opts, fn)
		if err == nil || !Retryable(err) {
			return err
		}
	}
	return fmt.Errorf("pg: gave up after %d attempts: %w", txAttempts, err)
}

func once(ctx context.Context, db Beginner, opts pgx.TxOptions, fn func(tx pgx.Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("pg: begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // a no-op after Commit
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("pg: commit: %w", err)
	}
	return nil
}

// Retryable reports whether a transaction that failed with err may simply be
// retried: after a deadlock or a serialization failure.
func Retryable(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "40P01" || pgErr.Code == "40001")
}

// LockTimedOut reports whether err means that another transaction kept a lock
// for longer than the failed one may wait: lock_timeout, or statement_timeout
// where an operator sets one.
func LockTimedOut(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "55P03" || pgErr.Code == "57014")
}

// ViolatesCheck reports whether err is a violation of the named CHECK constraint.
func ViolatesCheck(err error, constraint string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "23514" && pgErr.ConstraintName == constraint
}

// ViolatesUnique reports whether err is a violation of a unique key; an empty
// constraint matches any. A partition's index has a derived name, so callers on
// partitioned tables pass "".
func ViolatesUnique(err error, constraint string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "23505" && (constraint == "" || pgErr.ConstraintName == constraint)
}

// ViolatesForeignKey reports whether err is a violation of a foreign key.
func ViolatesForeignKey(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "23503"
}

// Settings are the process's connection budget.
type Settings struct {
	MaxConns int32 `default:"39" env:"STAMPEDE_MAX_CONNS" help:"Postgres connections of this instance, divided among its modules by weight; by default the order writer gets 10, and payments, which must answer however busy the rush is, 8." min:"12" max:"5000" rare:""`
}

// leastConns is the smallest pool: with a single connection, code that needs a
// second one deadlocks.
const leastConns = 2

// Share divides a budget of connections by weight: leastConns to each part,
// then one at a time to the part that has the fewest for its weight. With the
// sum of the weights as the budget, each part gets its weight.
func Share(budget int32, weights map[string]int32) map[string]int32 {
	shares := map[string]int32{}
	for name := range weights {
		shares[name] = leastConns
		budget -= leastConns
	}
	names := slices.Sorted(maps.Keys(weights))
	for ; budget > 0; budget-- {
		shares[slices.MinFunc(names, func(a, b string) int {
			return cmp.Compare(float64(shares[a])/float64(weights[a]), float64(shares[b])/float64(weights[b]))
		})]++
	}
	return shares
}
