package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the database/sql driver that goose needs
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"stampede/migrations"
)

// ErrNewerData means that the database was migrated by a newer Stampede.
var ErrNewerData = errors.New("a newer Stampede migrated the database; start that version or restore a backup from before")

// ErrUnreleased means that the database has the schema of an unreleased build:
// builds before the first release numbered their migrations from 1.
var ErrUnreleased = errors.New("a build from before the first release created the database, and its data cannot be converted; " +
	"start over with `stampede run --fresh`, or run `stampede serve` with a new database and an emptied Redis")

// Migrate brings the database to this binary's schema, which is version to, and
// makes sure that the next days' partitions exist. Several processes may call
// it concurrently: an advisory lock lets one work while the others wait. from
// is the database's version before the call; 0 is an empty database.
func Migrate(ctx context.Context, databaseURL string) (from, to int64, err error) {
	db, err := sql.Open("pgx", databaseURL)
	if err != nil {
		return 0, 0, fmt.Errorf("pg: migrate: %w", err)
	}
	defer func() { _ = db.Close() }()

	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return 0, 0, fmt.Errorf("pg: migrate: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		return 0, 0, fmt.Errorf("pg: migrate: %w", err)
	}
	from, err = p.GetDBVersion(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("pg: migrate: read version: %w", err)
	}
	sources := p.ListSources()
	to = sources[len(sources)-1].Version
	known := func(s *goose.Source) bool { return s.Version == from }
	switch {
	case from > to:
		return 0, 0, fmt.Errorf("the database has schema version %d, this program %d: %w", from, to, ErrNewerData)
	case from != 0 && !slices.ContainsFunc(sources, known):
		return 0, 0, fmt.Errorf("the database has schema version %d, which this program does not know: %w", from, ErrUnreleased)
	}
	if _, err := p.Up(ctx); err != nil {
		return 0, 0, fmt.Errorf("pg: migrate: %w", err)
	}
	// On goose's connection, which belongs to database/sql and not to pgx.
	if _, err := db.ExecContext(ctx, `SELECT platform.ensure_day_partitions(7)`); err != nil {
		return 0, 0, fmt.Errorf("pg: create partitions: %w", err)
	}
	return from, to, nil
}
