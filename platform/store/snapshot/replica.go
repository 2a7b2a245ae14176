package snapshot

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
)

const (
	// pollEvery is how late an instance that missed the broadcast is; a change is to
	// be in force everywhere within a second.
	pollEvery = 500 * time.Millisecond
	// readTimeout keeps a Postgres that hangs from holding the loop for long.
	readTimeout = 3 * time.Second
)

// Source is the part of Postgres that a Replica copies. All fields are required.
type Source[T any] struct {
	Name string // in errors, log lines and the broadcast's subject: "blacklist"
	// Table has the column revision and one row. It stands in SQL as it is, which is
	// why these statements are composed here and not by sqlc.
	Table string
	// Read reads the copy, within one database snapshot with the revision.
	Read func(ctx context.Context, tx pgx.Tx) (*T, error)
	// Failures counts the readings that failed.
	Failures prometheus.Counter

	DB  *pgxpool.Pool
	Bus *bus.Bus
	Log *slog.Logger
}

// Replica is the newest copy of a source. Safe for concurrent use.
type Replica[T any] struct {
	source  Source[T]
	current atomic.Pointer[T]

	reading  sync.Mutex // one reading at a time, so that a later one is newer
	revision int64      // of current
}

// New returns a replica that holds empty until the first Refresh.
func New[T any](source Source[T], empty *T) *Replica[T] {
	r := &Replica[T]{source: source, revision: -1}
	r.current.Store(empty)
	return r
}

// Now is the copy at this moment, for reading only.
func (r *Replica[T]) Now() *T { return r.current.Load() }

// Refresh reads the source if it has changed since the last time. Call it before
// serving.
func (r *Replica[T]) Refresh(ctx context.Context) error {
	r.reading.Lock()
	defer r.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	revision, err := r.at(ctx, r.source.DB)
	if err == nil && revision != r.revision {
		err = r.read(ctx)
	}
	if err != nil {
		r.source.Failures.Inc()
		return fmt.Errorf("%s: refresh: %w", r.source.Name, err)
	}
	return nil
}

// at returns the revision of the source.
func (r *Replica[T]) at(ctx context.Context, db pg.DB) (revision int64, err error) {
	if err := db.QueryRow(ctx, `SELECT revision FROM `+r.source.Table).Scan(&revision); err != nil {
		return 0, fmt.Errorf("read revision: %w", err)
	}
	return revision, nil
}

// read replaces the copy. r.reading is held.
func (r *Replica[T]) read(ctx context.Context) error {
	tx, err := r.source.DB.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it only read
	revision, err := r.at(ctx, tx)
	if err != nil {
		return err
	}
	next, err := r.source.Read(ctx, tx)
	if err != nil {
		return err
	}
	r.current.Store(next)
	r.revision = revision
	return nil
}

// Change runs fn in a transaction and, if it changed the source, raises the
// revision in it and broadcasts after the commit. This instance holds the change
// when Change returns.
func (r *Replica[T]) Change(ctx context.Context, fn func(tx pgx.Tx) (changed bool, err error)) error {
	changed := false
	err := pg.InTx(ctx, r.source.DB, func(tx pgx.Tx) (err error) {
		if changed, err = fn(tx); err != nil || !changed {
			return err
		}
		// Last, because every change waits for this row: so it is locked for a moment only.
		if _, err := tx.Exec(ctx, `UPDATE `+r.source.Table+` SET revision = revision + 1`); err != nil {
			return fmt.Errorf("raise revision: %w", err)
		}
		return nil
	})
	if err != nil || !changed {
		return err
	}
	if err := r.source.Bus.Broadcast(r.subject(), nil); err != nil {
		r.source.Log.WarnContext(ctx, "broadcast of a change failed, instances will see it at their next poll", "subject", r.subject(), "error", err)
	}
	if err := r.Refresh(ctx); err != nil {
		r.source.Log.WarnContext(ctx, "refresh after a change failed, the next poll repeats it", "source", r.source.Name, "error", err)
	}
	return nil
}

func (r *Replica[T]) subject() string { return "broadcast." + r.source.Name + ".changed" }

// Run keeps the replica fresh until ctx ends, then returns nil.
func (r *Replica[T]) Run(ctx context.Context) error {
	kicks, stop, err := r.source.Bus.Kicks(r.subject())
	if err != nil {
		return fmt.Errorf("%s: %w", r.source.Name, err)
	}
	defer stop()
	return app.Loop{
		Every: pollEvery, Kick: kicks, Do: r.Refresh, Log: r.source.Log.With("source", r.source.Name),
		Failed: "refresh from Postgres failed, the last copy stays in force",
	}.Run(ctx)
}
