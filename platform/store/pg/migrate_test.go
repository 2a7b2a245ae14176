package pg_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

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

// TestIndexesOfHotTablesLetWritersPass: no shopper waits while a migration builds an index of a large table, and a run that
// failed half-way, which leaves one that Postgres does not use, can be repeated.
func TestIndexesOfHotTablesLetWritersPass(t *testing.T) {
	t.Parallel()
	const (
		indexes = `SELECT array_agg(pg_get_indexdef(indexrelid) || indisvalid ORDER BY pg_get_indexdef(indexrelid)) FROM pg_index
			JOIN pg_class c ON c.oid = indrelid WHERE relnamespace IN ('orders'::regnamespace, 'account'::regnamespace)`
		waits = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ '^CREATE')`
	)
	for file, c := range map[string]struct{ table, write, undo, fail string }{
		"01277_shipping.sql": {
			"orders.orders",
			`INSERT INTO orders.orders (bucket, order_no, user_id, activity_id, session_id, item_id,
				epoch, quantity, unit_price, currency, title, status, pay_deadline)
			SELECT n, gen_random_uuid(), 7, 1, 1, 1, 1, 1, 100, 'CNY', 'x', 'closed', now() FROM generate_series(1, 100) n`,
			`DROP INDEX orders.orders_to_ship, orders.orders_to_complete, orders.details_by_name, orders.details_by_phone_tail`,
			`DROP INDEX orders.orders_to_ship; CREATE INDEX orders_3_to_ship ON orders.orders_3 (paid_at);
			UPDATE pg_index SET indisvalid = false WHERE indexrelid IN ('orders.orders_3_to_ship'::regclass, 'orders.details_by_name'::regclass)`,
		},
		"01288_coupon_uses.sql": {
			"orders.coupon_uses",
			`INSERT INTO orders.coupon_uses (bucket, order_no, coupon_no, kind_id, discount, status) SELECT 1, gen_random_uuid(), gen_random_uuid(), 1, 1, 'locked'`,
			`DROP INDEX orders.coupon_uses_by_kind; CREATE INDEX coupon_uses_of_kind ON orders.coupon_uses (kind_id)`,
			`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'orders.coupon_uses_by_kind'::regclass`,
		},
		"01291_erased_users.sql": {
			"account.users",
			`INSERT INTO account.users (status) VALUES ('erased')`,
			`DROP INDEX account.users_erased`,
			`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'account.users_erased'::regclass`,
		},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			db := pgtest.DB(t)
			script := func(sql string) {
				t.Helper()
				for statement := range strings.SplitSeq(sql, ";") {
					pgtest.Exec(t, db, statement)
				}
			}
			raw, err := fs.ReadFile(migrations.FS, file)
			require.NoError(t, err)
			alone := stdlib.OpenDBFromPool(db)
			t.Cleanup(func() { _ = alone.Close() })
			migrate := func(record string) error {
				p, err := goose.NewProvider(goose.DialectPostgres, alone, fstest.MapFS{file: {Data: raw}}, goose.WithTableName(record))
				require.NoError(t, err)
				_, err = p.Up(t.Context())
				return err
			}
			want := pgtest.Read[[]string](t, db, indexes)
			script(c.undo)
			pgtest.Exec(t, db, c.write)

			shopper := pgtest.Begin(t, db)
			pgtest.Exec(t, shopper, `UPDATE `+c.table+` SET updated_at = now()`)
			migrated := make(chan error, 1)
			go func() { migrated <- migrate("first") }()
			pgtest.Eventually(t, 30*time.Second, func() bool { return pgtest.Read[bool](t, db, waits) }, "the migration waits for the shopper")
			other := pgtest.Begin(t, db)
			pgtest.Exec(t, other, `SET LOCAL lock_timeout = 200`)
			pgtest.Exec(t, other, c.write)
			require.NoError(t, other.Commit(t.Context()))
			require.NoError(t, shopper.Commit(t.Context()))
			require.NoError(t, <-migrated)
			require.Equal(t, "indexes", pgtest.Read[[]string](t, db, indexes), want)

			script(c.fail)
			require.NoError(t, migrate("second"))
			require.Equal(t, "indexes after a failure", pgtest.Read[[]string](t, db, indexes), want)
		})
	}
}
