package backup_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"stampede/platform/store/backup"
	"stampede/platform/workshop/embedded"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// A database of more than one piece comes back as it was, and wherever the file is cut or changed, nothing of it does.
func TestRestoresAllOrNothing(t *testing.T) {
	t.Parallel()
	found, err := embedded.Find()
	require.NoError(t, err)
	url, dir := emptied(t), t.TempDir()
	db := fill(t, url, 90_000)
	const sum = `SELECT md5(string_agg(noise::text, '' ORDER BY n)) FROM backed_up`
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	about := backup.About{Version: "test", Made: time.Date(2026, 11, 28, 12, 30, 15, 0, time.UTC), SigningKey: "a key of the shop"}
	place, err := backup.At(dir)
	require.NoError(t, err)
	create := func() (string, int64, error) {
		return backup.Create(t.Context(), place, found.Tool("pg_dump"), url, about, key.Recipient())
	}
	name, size, err := create()
	require.NoError(t, err)
	require.Equal(t, "the name", name, "2026-11-28T123015Z.stampede.age")
	path := filepath.Join(dir, name)
	if _, _, err := create(); err == nil {
		t.Error("a backup was replaced")
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Equal(t, "files in the folder", len(entries), 1)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "its size", size, int64(len(raw)))
	require.Equal(t, "more than one piece", len(raw) > 5<<20, true)

	empty := emptied(t)
	into := pgtest.Connect(t, empty)
	restore := func(file string) error {
		b, err := backup.Open(t.Context(), file, key)
		if err != nil {
			return err
		}
		require.Equal(t, "about", b.About, about)
		err = b.Restore(t.Context(), found.Tool("pg_restore"), empty+"&pool_max_conns=4")
		require.NoError(t, b.Close())
		return err
	}
	damaged := filepath.Join(dir, "damaged")
	at := rand.IntN(len(raw)) //nolint:gosec // any place
	changed := slices.Clone(raw)
	changed[at] ^= 1 << (at % 8)
	for how, content := range map[string][]byte{"cut": raw[:at], "changed": changed, "without its end": raw[:len(raw)-1], "with more": append(slices.Clone(raw), 0)} {
		require.NoError(t, os.WriteFile(damaged, content, 0o600))
		if restore(damaged) == nil {
			t.Errorf("restored a file that was %s, at %d of %d", how, at, len(raw))
		}
		require.Equal(t, "tables afterwards", pgtest.Read[int](t, into, `SELECT count(*)::int FROM pg_class WHERE relnamespace = 'public'::regnamespace`), 0)
	}
	require.NoError(t, restore(path))
	require.Equal(t, "the table", pgtest.Read[string](t, into, sum), pgtest.Read[string](t, db, sum))
	if err := restore(path); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Error("restored into a database with tables:", err)
	}
}

// emptied returns the URL of a database without a table.
func emptied(t *testing.T) (url string) {
	t.Helper()
	url = pgtest.DatabaseURL(t)
	pgtest.Exec(t, pgtest.Connect(t, url), `DO $$ DECLARE s text; BEGIN FOR s IN SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'
		LOOP EXECUTE format('DROP SCHEMA %I CASCADE', s); END LOOP; CREATE SCHEMA public; END $$`)
	return url
}

// fill makes a table whose rows take 64 bytes each, which cannot be compressed.
func fill(t *testing.T, url string, rows int) *pgx.Conn {
	t.Helper()
	db := pgtest.Connect(t, url)
	pgtest.Exec(t, db, `CREATE TABLE backed_up AS SELECT n, sha256(n::text::bytea) || sha256((-n)::text::bytea) AS noise FROM generate_series(1, $1::int) n`, rows)
	return db
}
