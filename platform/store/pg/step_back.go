package pg

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/migrations"
)

// StepBack lets programs of the last release start on a database that this program has migrated: they refuse one with
// migrations that they do not know. It undoes nothing, because migrations only add. It sets the records of the later ones
// aside, in a table beside goose's, until a program that knows them migrates again.
func StepBack(ctx context.Context, databaseURL string) error {
	ours, err := lastVersion()
	if err != nil {
		return err
	}
	cfg, err := connConfig(databaseURL)
	if err != nil {
		return err
	}
	bound(cfg, "stampede migrate", setting{"lock_timeout", int(ddlWait.Milliseconds())})
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("pg: step back: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Against a server that migrates at its start meanwhile.
		if _, err := tx.Exec(ctx, `LOCK TABLE goose_db_version IN EXCLUSIVE MODE`); err != nil {
			return err
		}
		var theirs int64
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&theirs); err != nil {
			return err
		}
		switch {
		case theirs > ours:
			return newerData(theirs, ours)
		case theirs < migrations.LastReleaseVersion:
			return fmt.Errorf("the database has schema version %d, which is older than release %s: %w",
				theirs, migrations.LastRelease, ErrOlderData)
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS goose_db_version_ahead (LIKE goose_db_version)`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `WITH moved AS (DELETE FROM goose_db_version WHERE version_id > $1 RETURNING *)
			INSERT INTO goose_db_version_ahead SELECT * FROM moved`, migrations.LastReleaseVersion)
		return err
	})
	if err != nil {
		return fmt.Errorf("pg: step back: %w", err)
	}
	return nil
}

// stepForward ends what StepBack did, as far as this program knows the migrations; ours is the last that it knows.
func stepForward(ctx context.Context, db *sql.DB, ours int64) error {
	var stepped bool
	err := db.QueryRowContext(ctx, `SELECT to_regclass('goose_db_version_ahead') IS NOT NULL`).Scan(&stepped)
	if err == nil && stepped {
		_, err = db.ExecContext(ctx, `WITH moved AS (DELETE FROM goose_db_version_ahead WHERE version_id <= $1 RETURNING *)
			INSERT INTO goose_db_version SELECT * FROM moved`, ours)
	}
	if err != nil {
		return fmt.Errorf("pg: migrate: read what was set aside: %w", err)
	}
	return nil
}
