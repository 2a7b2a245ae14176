package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"stampede/migrations"
	"stampede/platform/base/app"
)

const (
	// ddlWait bounds how long a migration waits for a table's lock, because
	// every statement on the table queues behind it.
	ddlWait = time.Second
	// ddlPause lets those statements run before the next attempt.
	ddlPause = time.Second
	// ddlAttempts last for a minute or so. A migration that a longer reader
	// holds up, such as a pg_dump, has to be started again after it.
	ddlAttempts = 30
)

// ErrNewerData means that the database was migrated by a newer Stampede.
var ErrNewerData = errors.New("a newer Stampede migrated the database; start that version or restore a backup from before")

// ErrOlderData means that the database has the schema of an older Stampede.
var ErrOlderData = errors.New("migrate it with `stampede migrate` or the start of a server, or use the program of that version")

// ErrUnreleased means that the database has a schema version that no release had.
var ErrUnreleased = errors.New("an unreleased build created the database, and its data cannot be converted; " +
	"start over with `stampede run --fresh`, or run `stampede serve` with a new database and an emptied Redis")

// Migrate brings the database to this binary's schema, which is version to, and
// makes sure that the next days' partitions exist. Several processes may call
// it concurrently: an advisory lock lets one work while the others wait. from
// is the database's version before the call; 0 is an empty database. A lock that
// another session keeps ends it after a minute.
func Migrate(ctx context.Context, databaseURL string) (from, to int64, err error) {
	return migrate(ctx, databaseURL, ddlWait, ddlPause)
}

func migrate(ctx context.Context, databaseURL string, wait, pause time.Duration) (from, to int64, err error) {
	cfg, err := connConfig(databaseURL)
	if err != nil {
		return 0, 0, err
	}
	bound(cfg, "stampede migrate", setting{"lock_timeout", int(wait.Milliseconds())})
	db := stdlib.OpenDB(*cfg)
	defer func() { _ = db.Close() }()
	from = unread
	for attempt := 1; ; attempt++ {
		before, to, err := migrateOnce(ctx, db)
		if from == unread {
			from = before // a later attempt finds what an earlier one did
		}
		switch {
		case err == nil:
			return from, to, nil
		case attempt == ddlAttempts || !LockTimedOut(err):
			return 0, 0, err
		}
		if end := app.Sleep(ctx, pause); end != nil {
			return 0, 0, errors.Join(err, end)
		}
	}
}

// lastVersion returns the schema version of this program.
func lastVersion() (int64, error) {
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("pg: list the migrations: %w", err)
	}
	version, err := goose.NumericComponent(names[len(names)-1])
	if err != nil {
		return 0, fmt.Errorf("pg: number of a migration: %w", err)
	}
	return version, nil
}

// CheckVersion returns an error if the database has another schema version than this
// program: ErrNewerData or ErrOlderData. It is for processes that do not migrate.
func CheckVersion(ctx context.Context, db *pgxpool.Pool) error {
	ours, err := lastVersion()
	if err != nil {
		return err
	}
	var theirs int64
	err = db.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&theirs)
	if missing, ok := errors.AsType[*pgconn.PgError](err); ok && missing.Code == "42P01" {
		err = nil // there is no such table: the database is empty
	}
	switch {
	case err != nil:
		return fmt.Errorf("pg: read the schema version: %w", err)
	case theirs > ours:
		return newerData(theirs, ours)
	case theirs < ours:
		return fmt.Errorf("the database has schema version %d, this program needs %d: %w", theirs, ours, ErrOlderData)
	}
	return nil
}

func newerData(theirs, ours int64) error {
	return fmt.Errorf("the database has schema version %d, this program serves up to %d: %w", theirs, ours, ErrNewerData)
}

// unread is a version that could not be read.
const unread = -1

// migrateOnce migrates, unless a lock keeps it from it. It returns the version
// before, if it could read it, even with an error.
func migrateOnce(ctx context.Context, db *sql.DB) (from, to int64, err error) {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return unread, 0, fmt.Errorf("pg: migrate: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		return unread, 0, fmt.Errorf("pg: migrate: %w", err)
	}
	sources := p.ListSources()
	to = sources[len(sources)-1].Version
	if err := stepForward(ctx, db, to); err != nil {
		return unread, 0, err
	}
	from, err = p.GetDBVersion(ctx)
	if err != nil {
		return unread, 0, fmt.Errorf("pg: migrate: read version: %w", err)
	}
	known := func(s *goose.Source) bool { return s.Version == from }
	switch {
	case from > to:
		return from, 0, newerData(from, to)
	case from != 0 && !slices.ContainsFunc(sources, known):
		return from, 0, fmt.Errorf("the database has schema version %d, which this program does not know: %w", from, ErrUnreleased)
	}
	if _, err := p.Up(ctx); err != nil {
		return from, 0, fmt.Errorf("pg: migrate: %w", err)
	}
	// On goose's connection, which belongs to database/sql and not to pgx.
	// Behind a lock that another session keeps, the housekeeper does it later.
	if _, err := db.ExecContext(ctx, `SELECT platform.ensure_day_partitions(7)`); err != nil && !LockTimedOut(err) {
		return from, 0, fmt.Errorf("pg: create partitions: %w", err)
	}
	return from, to, nil
}
