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

// Migrate brings the database to this binary's schema and makes sure that the
// next days' partitions exist. Several processes may call it at once: an
// advisory lock lets one work while the others wait.
func Migrate(ctx context.Context, databaseURL string) error {
	db, err := sql.Open("pgx", databaseURL)
	if err != nil {
		return fmt.Errorf("pg: migrate: %w", err)
	}
	defer func() { _ = db.Close() }()

	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("pg: migrate: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("pg: migrate: %w", err)
	}
	current, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("pg: migrate: read version: %w", err)
	}
	sources := p.ListSources()
	if latest := sources[len(sources)-1].Version; current > latest {
		return fmt.Errorf("pg: database is at version %d, this binary knows %d: %w", current, latest, ErrNewerData)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("pg: migrate: %w", err)
	}
	if _, err := db.ExecContext(ctx, `SELECT platform.ensure_day_partitions(7)`); err != nil {
		return fmt.Errorf("pg: create partitions: %w", err)
	}
	return nil
}
