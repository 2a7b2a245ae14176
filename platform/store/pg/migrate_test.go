package pg_test

import (
	"errors"
	"strings"
	"testing"

	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
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
	}{
		"newer":      {record + `(99999999, true)`, pg.ErrNewerData, []string{"99999999", "restore a backup"}},
		"unreleased": {`DELETE FROM goose_db_version; ` + record + `(0, true), (1, true), (19, true)`, pg.ErrUnreleased, []string{"version 19", "`stampede run --fresh`", "`stampede serve`"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.DB(t)
			if _, err := db.Exec(t.Context(), test.sql); err != nil {
				t.Fatal(err)
			}
			_, _, err := pg.Migrate(t.Context(), db.Config().ConnString())
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not contain %q", err, part)
				}
			}
		})
	}
}

func TestMigrateAgainChangesNothing(t *testing.T) {
	t.Parallel()
	from, to, err := pg.Migrate(t.Context(), pgtest.DatabaseURL(t))
	if err != nil || from != to || from == 0 {
		t.Errorf("from %d to %d: %v", from, to, err)
	}
}
