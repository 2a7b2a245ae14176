package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"stampede/platform/store/bus"
	"stampede/platform/store/pulse"
	"stampede/platform/store/snapshot"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// inForce is three times the promised bound.
const inForce = 3 * time.Second

// bundle is a source table of words, and what its instances share.
type bundle struct {
	t   *testing.T
	db  *pgxpool.Pool
	bus *bus.Bus
}

func setup(t *testing.T) bundle {
	t.Helper()
	s := bundle{t: t, db: pgtest.DB(t), bus: bustest.Open(t)}
	s.exec(`CREATE TABLE words (word text)`)
	s.exec(`CREATE TABLE words_revision AS SELECT 0::bigint AS revision`)
	return s
}

func (s bundle) exec(sql string, args ...any) {
	s.t.Helper()
	pgtest.Exec(s.t, s.db, sql, args...)
}

// instance follows the words.
type instance struct {
	*snapshot.Replica[[]string]
	failures prometheus.Counter
}

func (s bundle) instance(beats ...*pulse.Pulse) instance {
	failures := prometheus.NewCounter(prometheus.CounterOpts{Name: "failures"})
	return instance{snapshot.New(snapshot.Source[[]string]{
		Pulse: append(beats, nil)[0],
		Name:  "words", Table: "words_revision", Failures: failures, DB: s.db, Bus: s.bus, Log: slog.New(slog.DiscardHandler),
		Read: func(ctx context.Context, tx pgx.Tx) (*[]string, error) {
			rows, err := tx.Query(ctx, `SELECT word FROM words ORDER BY word`)
			if err != nil {
				return nil, err
			}
			words, err := pgx.CollectRows(rows, pgx.RowTo[string])
			return &words, err
		},
	}, new([]string)), failures}
}

func (i instance) words() string { return strings.Join(*i.Now(), " ") }

// add adds a word, or pretends to.
func (i instance) add(t *testing.T, word string, changed bool) {
	t.Helper()
	err := i.Change(t.Context(), func(tx pgx.Tx) (bool, error) {
		_, err := tx.Exec(t.Context(), `INSERT INTO words VALUES ($1)`, word)
		return changed, err
	})
	require.NoError(t, err)
}

// A change is visible on its instance immediately and on the others within a
// second, with or without a broadcast.
func TestChangeIsVisibleEverywhere(t *testing.T) {
	t.Parallel()
	s := setup(t)
	one, two := s.instance(), s.instance()
	pgtest.Work(s.t, two.Run)
	one.add(t, "a", true)
	require.Equal(t, "where it was changed", one.words(), "a")
	pgtest.Eventually(t, inForce, func() bool { return two.words() == "a" }, "a change is shown elsewhere")
	s.exec(`INSERT INTO words VALUES ('b')`)
	s.exec(`UPDATE words_revision SET revision = revision + 1`)
	pgtest.Eventually(t, inForce, func() bool { return two.words() == "a b" }, "a change that was not broadcast is found")
}

// With a pulse, an instance that missed the broadcast asks nothing itself.
func TestPulseFindsAChange(t *testing.T) {
	t.Parallel()
	s := setup(t)
	beats := pulse.New(s.db, slog.New(slog.DiscardHandler), nil)
	pgtest.Work(t, beats.Worker().Run)
	i := s.instance(beats)
	pgtest.Work(t, i.Run)
	for _, word := range []string{"a", "b"} {
		s.exec(`INSERT INTO words VALUES ($1)`, word)
		s.exec(`UPDATE words_revision SET revision = revision + 1`)
		pgtest.Eventually(t, inForce, func() bool { return strings.HasSuffix(i.words(), word) }, "the change is found")
	}
}

// A transaction that does not change the source, or fails, does not raise the revision.
func TestOnlyAChangeRaisesTheRevision(t *testing.T) {
	t.Parallel()
	s := setup(t)
	i := s.instance()
	i.add(t, "a", false)
	require.Equal(t, "without a new revision", i.words(), "")
	fails := errors.New("fails")
	require.ErrorIs(t, i.Change(t.Context(), func(pgx.Tx) (bool, error) { return true, fails }), fails)
	require.Equal(t, "revision", pgtest.Read[int64](t, s.db, `SELECT revision FROM words_revision`), 0)
}

// The last copy stays while Postgres is away.
func TestCopyOutlivesPostgres(t *testing.T) {
	t.Parallel()
	s := setup(t)
	i := s.instance()
	i.add(t, "a", true)
	s.db.Close()
	require.Equal(t, "a failed read and its count", fmt.Sprint(i.Refresh(t.Context()) != nil, testutil.ToFloat64(i.failures)), "true 1")
	require.Equal(t, "left", i.words(), "a")
}
