package pulse_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"stampede/platform/store/pulse"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

func beat(t *testing.T, db *pgxpool.Pool) *pulse.Pulse {
	t.Helper()
	pgtest.Exec(t, db, `CREATE TABLE work (due boolean, revision bigint)`)
	pgtest.Exec(t, db, `INSERT INTO work VALUES (false, 7)`)
	return pulse.New(db, slog.New(slog.DiscardHandler), nil)
}

const (
	due      = `EXISTS (SELECT FROM work WHERE due)`
	revision = `SELECT max(revision) FROM work`
)

// kicked reports whether a pulse kicked the loop, and takes the kick.
func kicked(loop <-chan struct{}) bool {
	select {
	case <-loop:
		return true
	default:
		return false
	}
}

func TestPulseKicksTheLoopsThatHaveSomethingToDo(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	p := beat(t, db)
	some, changed := p.Due("some", due), p.Changed("revision", revision)
	for _, step := range []struct {
		after         string // a statement
		some, changed bool
	}{
		{`SELECT`, false, true}, // nothing is known of the revision before the first pulse
		{`SELECT`, false, false},
		{`UPDATE work SET due = true`, true, false},
		{`UPDATE work SET revision = 6`, true, true},
		{`DELETE FROM work`, false, true}, // no answer is an answer
		{`SELECT`, false, false},
	} {
		pgtest.Exec(t, db, step.after)
		require.NoError(t, p.Ask(t.Context()))
		if a, b := kicked(some), kicked(changed); a != step.some || b != step.changed {
			t.Errorf("after %s the loops were kicked: %v and %v, want %v and %v", step.after, a, b, step.some, step.changed)
		}
	}
}

// A worker that starts again asks its old question, and a loop that is busy for several
// pulses is kicked once.
func TestQuestionsAreKeptOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	p := beat(t, db)
	some := p.Due("some", due)
	pgtest.Exec(t, db, `UPDATE work SET due = true`)
	for range 2 {
		require.NoError(t, p.Ask(t.Context()))
	}
	if again := p.Due("some", due); again != some || !kicked(again) || kicked(again) {
		t.Error("the question of a restarted worker was asked again, or its kicks gather")
	}
}

// Several loops wait for any commit, and each of them is kicked.
func TestLoopsWithOneQuestionAreKickedEach(t *testing.T) {
	t.Parallel()
	p := beat(t, pgtest.DB(t))
	a, b := p.Changed("a", pulse.Commits), p.Changed("b", pulse.Commits)
	require.NoError(t, p.Ask(t.Context()))
	if !kicked(a) || !kicked(b) {
		t.Error("one loop took the other's kick")
	}
}

// While one question cannot be answered no loop is left without a round, and what
// changes meanwhile is not missed.
func TestLoopsAskThemselvesWhileAPulseFails(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	p := beat(t, db)
	some, changed := p.Due("some", due), p.Changed("revision", revision)
	require.NoError(t, p.Ask(t.Context()))
	kicked(changed)
	lock, err := db.Begin(t.Context())
	require.NoError(t, err)
	_, err = lock.Exec(t.Context(), `LOCK TABLE work`)
	require.NoError(t, err)
	if err := p.Ask(t.Context()); err == nil || !kicked(some) || !kicked(changed) {
		t.Errorf("Ask() = %v of a locked table, or a loop was not kicked", err)
	}
	require.NoError(t, lock.Rollback(t.Context()))
	require.NoError(t, p.Ask(t.Context()))
	if kicked(some) || !kicked(changed) {
		t.Error("after the outage the loop with nothing to do was kicked, or the other was not")
	}
}

// A transaction that commits late, after later ones and while an older one goes on, is a
// commit too. Not parallel: the transactions of other tests, whose databases share the
// server, would kick the loop as well.
func TestCommitsSeesEveryCommit(t *testing.T) {
	db := pgtest.DB(t)
	p := beat(t, db)
	begin := func() pgx.Tx {
		tx, err := db.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT pg_current_xact_id()`)
		require.NoError(t, err)
		return tx
	}
	older, late := begin(), begin()
	pgtest.Exec(t, db, `UPDATE work SET revision = 8`)
	changed := p.Changed("commits", pulse.Commits)
	require.NoError(t, p.Ask(t.Context()))
	kicked(changed)
	require.NoError(t, late.Commit(t.Context()))
	require.NoError(t, p.Ask(t.Context()))
	if !kicked(changed) {
		t.Error("the commit kicked no loop")
	}
	require.NoError(t, older.Rollback(t.Context()))
}

func TestPingAsksWhenNoPulseWasAnswered(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	p := beat(t, db)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if p.Ping(ended) == nil {
		t.Error("Postgres counts as reachable before the first answer")
	}
	p.Due("some", due)
	require.NoError(t, p.Ask(t.Context()))
	require.NoError(t, p.Ping(ended)) // asks nothing
	pgtest.Eventually(t, 10*time.Second, func() bool { return p.Ping(ended) != nil }, "the answer is too old")
}

func TestNoPulseAsksNothing(t *testing.T) {
	t.Parallel()
	var p *pulse.Pulse
	if p.Due("some", due) != nil || p.Changed("revision", revision) != nil {
		t.Error("a loop without a pulse waits for one")
	}
}

// A condition that no index serves is a programming error.
func TestVolatileConditionPanics(t *testing.T) {
	t.Parallel()
	p := pulse.New(nil, slog.New(slog.DiscardHandler), nil)
	require.Panics(t, "clock_timestamp()", func() { p.Due("work", `EXISTS (SELECT FROM work WHERE at <= clock_timestamp())`) })
}
