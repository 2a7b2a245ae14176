package pg_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"stampede/migrations"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// TestMigrateRefusesUnknownSchema checks that the error says what to do, since
// it is all an operator sees when a server does not start.
func TestMigrateRefusesUnknownSchema(t *testing.T) {
	t.Parallel()
	const record = `INSERT INTO goose_db_version (version_id, is_applied) VALUES `
	for name, test := range map[string]struct {
		sql  string
		want error
		says []string
		// What a process that does not migrate reports.
		unmigrated error
	}{
		"newer":      {record + `(99999999, true)`, pg.ErrNewerData, []string{"99999999", "restore a backup"}, pg.ErrNewerData},
		"between":    {`DELETE FROM goose_db_version WHERE version_id > 900`, pg.ErrUnreleased, []string{"version 900", "`stampede run --fresh`"}, pg.ErrOlderData},
		"empty":      {`DROP TABLE goose_db_version`, nil, nil, pg.ErrOlderData},
		"unreleased": {`DELETE FROM goose_db_version; ` + record + `(0, true), (1, true), (19, true)`, pg.ErrUnreleased, []string{"version 19", "`stampede run --fresh`", "`stampede serve`"}, pg.ErrOlderData},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.DB(t)
			pgtest.Exec(t, db, test.sql)
			if err := pg.CheckVersion(t.Context(), db); !errors.Is(err, test.unmigrated) || strings.Contains(err.Error(), "\n") {
				t.Errorf("without migrating: got %v, want %v", err, test.unmigrated)
			}
			if test.want == nil {
				return
			}
			_, _, err := pg.Migrate(t.Context(), db.Config().ConnString())
			require.ErrorIs(t, err, test.want)
			for _, part := range test.says {
				require.Contains(t, "refusal", err.Error(), part)
			}
		})
	}
}

func TestMigrateAgainChangesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	from, to, err := pg.Migrate(t.Context(), db.Config().ConnString())
	require.NoError(t, err)
	require.Equal(t, "already migrated", from == to && from != 0, true)
	require.NoError(t, pg.CheckVersion(t.Context(), db))
}

// TestMigrationLeavesTheLockQueue: a migration that cannot have its lock lets the
// statements behind it pass, and tries again.
func TestMigrationLeavesTheLockQueue(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	tx := pgtest.Begin(t, db)
	pgtest.Exec(t, tx, `LOCK TABLE goose_db_version`)
	migrated := make(chan error, 1)
	go func() {
		_, _, err := pg.MigrateWithin(t.Context(), db.Config().ConnString(), 20*time.Millisecond, time.Millisecond)
		migrated <- err
	}()
	waits := map[time.Time]bool{}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		var began time.Time
		if err := tx.QueryRow(t.Context(), `SELECT pg_stat_clear_snapshot()`).Scan(nil); err != nil {
			return false
		}
		if err := tx.QueryRow(t.Context(), `SELECT query_start FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'stampede migrate' AND wait_event_type = 'Lock'`).Scan(&began); err == nil {
			waits[began] = true
		}
		return len(waits) > 1
	}, "a second attempt")
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-migrated)
}

// TestStepBack: a program of the last release finds its own schema version, and this program its own again, with each
// migration recorded once.
func TestStepBack(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	url := db.Config().ConnString()
	const version, records = `SELECT max(version_id) FROM goose_db_version`, `SELECT array_agg(version_id ORDER BY id) FROM goose_db_version`
	before := pgtest.Read[[]int64](t, db, records)
	for range 2 { // the second time there is nothing to do
		require.NoError(t, pg.StepBack(t.Context(), url))
		require.Equal(t, "version", pgtest.Read[int64](t, db, version), migrations.LastReleaseVersion)
		require.ErrorIs(t, pg.CheckVersion(t.Context(), db), pg.ErrOlderData)
	}
	// What a still later release has set aside waits for that release.
	pgtest.Exec(t, db, `INSERT INTO goose_db_version_ahead (id, version_id, is_applied, tstamp) VALUES (100000, 99999999, true, now())`)
	from, to, err := pg.Migrate(t.Context(), url)
	require.NoError(t, err)
	require.Equal(t, "nothing to migrate", from, to)
	require.NoError(t, pg.CheckVersion(t.Context(), db))
	require.Equal(t, "records", pgtest.Read[[]int64](t, db, records), before)
	require.Equal(t, "what a later release has set aside", pgtest.Read[[]int64](t, db, `SELECT array_agg(version_id) FROM goose_db_version_ahead`), []int64{99999999})

	pgtest.Exec(t, db, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999999, true)`)
	require.ErrorIs(t, pg.StepBack(t.Context(), url), pg.ErrNewerData)
	pgtest.Exec(t, db, `DELETE FROM goose_db_version WHERE version_id > 900`)
	require.ErrorIs(t, pg.StepBack(t.Context(), url), pg.ErrOlderData)
}
