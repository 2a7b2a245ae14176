package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the database/sql driver that goose needs
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"stampede/migrations"
)

// ErrNewerData means that the database was migrated by a newer Stampede.
var ErrNewerData = errors.New("the database belongs to a newer Stampede; start that version or restore a backup")

// Migrate brings the database to this binary's schema, which is version to, and
// makes sure that the next days' partitions exist. Several processes may call it at
// once: an advisory lock lets one work while the others wait. The database was at
// version from when it was called; 0 is an empty one.
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
	if from > to {
		return 0, 0, fmt.Errorf("pg: database is at version %d, this binary knows %d: %w", from, to, ErrNewerData)
	}
	if _, err := p.Up(ctx); err != nil {
		return 0, 0, fmt.Errorf("pg: migrate: %w", err)
	}
	if _, err := db.ExecContext(ctx, `SELECT platform.ensure_day_partitions(7)`); err != nil {
		return 0, 0, fmt.Errorf("pg: create partitions: %w", err)
	}
	return from, to, nil
}
