package pg_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// patience bounds what takes a second or two on an idle machine.
const patience = 30 * time.Second

// replicated is a primary with a standby, and what a test reads of them.
type replicated struct {
	*testing.T
	primary *pgxpool.Pool
	*pg.Standby
}

// do is Read of what a closure keeps.
func (r replicated) do(ctx context.Context, read func(ctx context.Context, db pg.DB) error) error {
	_, err := pg.Read(ctx, r.Standby, r.primary, func(ctx context.Context, db pg.DB) (struct{}, error) { return struct{}{}, read(ctx, db) })
	return err
}

func openStandby(t *testing.T, url string, primary *pgxpool.Pool) (*pg.Standby, error) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	a := app.New(log)
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })
	return pg.OpenStandby(t.Context(), a, url, primary, log, prometheus.NewRegistry())
}

// read returns which server read, and how many rows it found.
func (r replicated) read() (server string, rows int) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	require.NoError(r, r.do(ctx, func(ctx context.Context, db pg.DB) error {
		return db.QueryRow(ctx, where).Scan(&server, &rows)
	}))
	return server, rows
}

const where = `SELECT CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE 'primary' END, count(*) FROM acts`

// reads requires that a server reads, after a while, and never misses a row.
func (r replicated) reads(server string, rows int, when string) {
	r.Helper()
	pgtest.Eventually(r, patience, func() bool {
		by, found := r.read()
		require.Equal(r, "rows "+when+", on the "+by, found, rows)
		return by == server
	}, "the "+server+" reads "+when)
}

// act commits a row on the primary.
func (r replicated) act() { r.Helper(); pgtest.Exec(r, r.primary, `INSERT INTO acts DEFAULT VALUES`) }

// One standby serves the whole test: each step leaves it as it was, the last two do not.
func TestStandbyReadsWhileItHasEveryCommit(t *testing.T) {
	t.Parallel()
	primaryURL, server := pgtest.Replicated(t)
	primary, err := pg.Open(t.Context(), primaryURL, "test", 4)
	require.NoError(t, err)
	t.Cleanup(primary.Close)
	pgtest.Exec(t, primary, `CREATE TABLE acts (id bigint GENERATED ALWAYS AS IDENTITY)`)
	standby, err := openStandby(t, server.URL, primary)
	require.NoError(t, err)
	r := replicated{t, primary, standby}
	direct := func(sql string) { t.Helper(); pgtest.Exec(t, pgtest.Connect(t, server.URL), sql) }

	r.reads("standby", 0, "at first")
	const acts = 20
	for n := 1; n <= acts; n++ {
		r.act()
		if _, found := r.read(); found != n {
			t.Fatalf("a read right after act %d found %d", n, found)
		}
	}
	r.reads("standby", acts, "after acts")

	direct(`SELECT pg_wal_replay_pause()`)
	r.act()
	r.reads("primary", acts+1, "while the replay is paused")
	direct(`SELECT pg_wal_replay_resume()`)
	r.reads("standby", acts+1, "when the replay has caught up")

	refused := fault.Plain(fault.Invalid, fault.T("No.", "否。"))
	asked := 0
	err = r.do(t.Context(), func(context.Context, pg.DB) error { asked++; return refused })
	if !errors.Is(err, refused) || asked != 2 {
		t.Errorf("a refused read was done %d times: %v", asked, err)
	}
	by, _ := r.read()
	require.Equal(t, "who reads after a refusal", by, "standby")

	busy, err := pg.Open(t.Context(), primaryURL, "test", 1)
	require.NoError(t, err)
	taken, err := busy.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, replicated{t, busy, standby}.do(t.Context(), func(context.Context, pg.DB) error { return nil }))
	taken.Release()
	busy.Close()
	by, _ = r.read()
	require.Equal(t, "who reads after a read of a busy pool", by, "standby")

	r.conflict(server)
	r.frozen(server)

	server.Stop(t)
	r.reads("primary", acts+1, "while the standby is stopped")
	_, err = openStandby(t, server.URL, primary)
	require.NoError(t, err) // a start does not need it
	server.Start(t)
	_ = standby.Check(t.Context()) // sooner than its own probe
	r.reads("standby", acts+1, "when the standby is back")

	for what, url := range map[string]string{
		"another server": pgtest.DatabaseURL(t), "another database": strings.Replace(server.URL, "/stampede?", "/postgres?", 1),
	} {
		if _, err := openStandby(t, url, primary); !errors.Is(err, pg.ErrNoStandby) {
			t.Errorf("%s as the standby: %v", what, err)
		}
	}

	direct(`SELECT pg_promote()`)
	direct(`SELECT pg_switch_wal()`) // it is ahead of the primary
	r.act()
	r.reads("primary", acts+2, "when the standby is promoted")
	require.Contains(t, "the reason", standby.Check(t.Context()).Error(), "promoted")

	// The standby of a primary that is lost, beside the one that took over.
	server.Stop(t)
	require.NoError(t, os.WriteFile(filepath.Join(server.Data, "standby.signal"), nil, 0o600))
	server.Start(t)
	pgtest.Eventually(t, patience, func() bool {
		err := standby.Check(t.Context())
		return err != nil && strings.Contains(err.Error(), "another timeline")
	}, "the standby of another timeline is noticed")
	r.act()
	r.reads("primary", acts+3, "while the standby follows another timeline")
}

// conflict lets the primary truncate what is being read on the standby.
func (r replicated) conflict(server *pgtest.Standby) {
	r.Helper()
	watch := pgtest.Connect(r, server.URL)
	pgtest.Exec(r, r.primary, `CREATE TABLE doomed AS SELECT 1`)
	var by []string
	require.NoError(r, r.do(r.Context(), func(ctx context.Context, db pg.DB) error {
		var server string
		var rows int
		if err := db.QueryRow(ctx, where).Scan(&server, &rows); err != nil {
			return err
		}
		if by = append(by, server); server == "primary" {
			return nil
		}
		truncated := make(chan error, 1)
		go func() {
			sleeps := false
			for err := error(nil); err == nil && !sleeps; {
				err = watch.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')`).Scan(&sleeps)
			}
			_, err := r.primary.Exec(ctx, `TRUNCATE doomed`)
			truncated <- err
		}()
		_, err := db.Exec(ctx, `SELECT pg_sleep(60) FROM doomed`)
		require.NoError(r, <-truncated)
		canceled, _ := errors.AsType[*pgconn.PgError](err)
		require.Equal(r, "the code of the conflict", canceled.Code, "40001")
		return err
	}))
	require.Equal(r, "who did the read that kept the replay waiting", by, []string{"standby", "primary"})
	after, _ := r.read()
	require.Equal(r, "who reads after a conflict", after, "standby")
}

// frozen freezes the standby between two reads, and in one.
func (r replicated) frozen(server *pgtest.Standby) {
	r.Helper()
	_, rows := r.read()
	thaw := server.Freeze(r)
	r.reads("primary", rows, "while the standby is frozen")
	_, err := openStandby(r.T, server.URL, r.primary)
	require.NoError(r, err) // a start does not need it
	thaw()
	_ = r.Check(r.Context()) // sooner than its own probe
	r.reads("standby", rows, "when the standby runs again")

	ctx, cancel := context.WithTimeout(r.Context(), 4*time.Second)
	defer cancel()
	var by string
	require.NoError(r, r.do(ctx, func(ctx context.Context, db pg.DB) error {
		if by == "" {
			by = "none yet"
			thaw = server.Freeze(r) //nolint:contextcheck // it works in the test's
		}
		return db.QueryRow(ctx, where).Scan(&by, &rows)
	}))
	require.Equal(r, "who does a read in which the standby freezes", by, "primary")
	thaw()
}
