package follow

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

	"stampede/platform/app"
	"stampede/platform/bus"
	"stampede/platform/pg"
)

const (
	// pollEvery is how late an instance that missed the broadcast is; a change is to
	// be in force everywhere within a second.
	pollEvery = 500 * time.Millisecond
	// readTimeout keeps a Postgres that hangs from holding the loop for long.
	readTimeout = 3 * time.Second
)

// Part is a part of Postgres that is followed. All fields are required.
type Part[T any] struct {
	Name string // in errors, log lines and the broadcast's subject: "blacklist"
	// Table has the column revision and one row. It stands in SQL as it is.
	Table string
	// Read makes the picture, within one snapshot with the revision.
	Read func(ctx context.Context, tx pgx.Tx) (*T, error)
	// Failures counts the readings that failed.
	Failures prometheus.Counter

	DB  *pgxpool.Pool
	Bus *bus.Bus
	Log *slog.Logger
}

// Picture is the newest picture of a part. Safe for concurrent use.
type Picture[T any] struct {
	of      Part[T]
	current atomic.Pointer[T]

	reading  sync.Mutex // one reading at a time, so that a later one is newer
	revision int64      // of current
}

// New returns a picture that shows empty until the first Refresh.
func New[T any](of Part[T], empty *T) *Picture[T] {
	p := &Picture[T]{of: of, revision: -1}
	p.current.Store(empty)
	return p
}

// Now is the picture at this moment, for reading only.
func (p *Picture[T]) Now() *T { return p.current.Load() }

// Refresh reads the part if it has changed since the last time. Call it before
// serving.
func (p *Picture[T]) Refresh(ctx context.Context) error {
	p.reading.Lock()
	defer p.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	revision, err := p.at(ctx, p.of.DB)
	if err == nil && revision != p.revision {
		err = p.read(ctx)
	}
	if err != nil {
		p.of.Failures.Inc()
		return fmt.Errorf("%s: refresh: %w", p.of.Name, err)
	}
	return nil
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// at returns the revision that the part has.
func (p *Picture[T]) at(ctx context.Context, db querier) (revision int64, err error) {
	if err := db.QueryRow(ctx, `SELECT revision FROM `+p.of.Table).Scan(&revision); err != nil {
		return 0, fmt.Errorf("read revision: %w", err)
	}
	return revision, nil
}

// read replaces the picture. p.reading is held.
func (p *Picture[T]) read(ctx context.Context) error {
	tx, err := p.of.DB.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it only read
	revision, err := p.at(ctx, tx)
	if err != nil {
		return err
	}
	next, err := p.of.Read(ctx, tx)
	if err != nil {
		return err
	}
	p.current.Store(next)
	p.revision = revision
	return nil
}

// Change runs fn in a transaction and, if it changed what the picture shows, raises
// the revision in it and tells every instance after the commit. This one shows the
// change when Change returns.
func (p *Picture[T]) Change(ctx context.Context, fn func(tx pgx.Tx) (changed bool, err error)) error {
	changed := false
	err := pg.InTx(ctx, p.of.DB, func(tx pgx.Tx) (err error) {
		if changed, err = fn(tx); err != nil || !changed {
			return err
		}
		// Last: the row is everybody's, and whoever waits for it holds nothing long.
		if _, err := tx.Exec(ctx, `UPDATE `+p.of.Table+` SET revision = revision + 1`); err != nil {
			return fmt.Errorf("raise revision: %w", err)
		}
		return nil
	})
	if err != nil || !changed {
		return err
	}
	if err := p.of.Bus.Broadcast(p.subject(), nil); err != nil {
		p.of.Log.WarnContext(ctx, "broadcast failed, the poll will do it", "subject", p.subject(), "error", err)
	}
	if err := p.Refresh(ctx); err != nil {
		p.of.Log.WarnContext(ctx, "not read after a change, the poll will do it", "part", p.of.Name, "error", err)
	}
	return nil
}

func (p *Picture[T]) subject() string { return "broadcast." + p.of.Name + ".changed" }

// Run keeps the picture fresh until ctx ends, then returns nil.
func (p *Picture[T]) Run(ctx context.Context) error {
	kicks, stop, err := p.of.Bus.Kicks(p.subject())
	if err != nil {
		return fmt.Errorf("%s: %w", p.of.Name, err)
	}
	defer stop()
	return app.Loop{
		Every: pollEvery, Kick: kicks, Do: p.Refresh, Log: p.of.Log.With("part", p.of.Name),
		Failed: "not read from Postgres, the last picture stays in force",
	}.Run(ctx)
}
