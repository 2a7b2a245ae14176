package lease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"stampede/platform/base/app"
	"stampede/platform/store/lease"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

func acquire(t testing.TB, db pg.DB, name, holder string, ttl time.Duration) (lease.Lease, bool) {
	t.Helper()
	l, ok, err := lease.Acquire(t.Context(), db, name, holder, ttl)
	require.NoError(t, err)
	return l, ok
}

func mustNotAcquire(t testing.TB, db pg.DB, name, holder string) {
	t.Helper()
	_, ok := acquire(t, db, name, holder, time.Hour)
	require.Equal(t, name+" goes to "+holder, ok, false)
}

func renew(t testing.TB, db pg.DB, l lease.Lease) bool {
	t.Helper()
	ok, err := lease.Renew(t.Context(), db, l, time.Hour)
	require.NoError(t, err)
	return ok
}

func TestOneHolderAtATimeAndTokensRise(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	first, ok := acquire(t, db, "load:1", "a", time.Hour)
	require.Equal(t, "first", fmt.Sprint(ok, first.Token, first.Name, first.Holder), fmt.Sprint(true, 1, "load:1", "a"))
	mustNotAcquire(t, db, "load:1", "b")
	mustNotAcquire(t, db, "load:1", "a") // the same holder
	other, ok := acquire(t, db, "load:2", "b", time.Hour)
	require.Equal(t, "another name", fmt.Sprint(ok, other.Token), "true 1")
	require.NoError(t, lease.Release(t.Context(), db, first))
	second, ok := acquire(t, db, "load:1", "b", time.Hour)
	require.Equal(t, "the next holder has it, with a larger token", fmt.Sprint(ok, second.Token > first.Token), "true true")
	// The first holder slept through its lease: neither call affects the second.
	require.Equal(t, "renewed another holder's lease", renew(t, db, first), false)
	require.NoError(t, lease.Release(t.Context(), db, first))
	mustNotAcquire(t, db, "load:1", "c") // a stale release ends no other holder's lease
	require.Equal(t, "renewed", renew(t, db, second), true)
}

func TestExpiredLeaseIsTakenOver(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	first, _ := acquire(t, db, "x", "a", 20*time.Millisecond)
	var second lease.Lease
	pgtest.Eventually(t, 30*time.Second, func() (ok bool) {
		second, ok = acquire(t, db, "x", "b", 20*time.Millisecond)
		return ok
	}, "the lease runs out")
	require.Equal(t, "tokens rise", second.Token > first.Token, true)
	// It was not acquired since, so it may be renewed after its expiry.
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return pgtest.Read[bool](t, db, `SELECT expires_at <= clock_timestamp() FROM platform.leases`)
	}, "the second runs out")
	require.Equal(t, "renewed", renew(t, db, second), true)
	mustNotAcquire(t, db, "x", "c")
}

func TestRaceHasOneWinner(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	for round := range 5 {
		var winners, token atomic.Int64
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				l, ok, err := lease.Acquire(t.Context(), db, "race", fmt.Sprint(i), time.Hour)
				if err != nil {
					t.Error(err)
				}
				if ok {
					winners.Add(1)
					token.Store(l.Token)
				}
			})
		}
		all.Wait()
		require.Equal(t, "winners and token", fmt.Sprint(winners.Load(), token.Load()), fmt.Sprint(1, round+1))
		require.NoError(t, lease.Release(t.Context(), db, lease.Lease{Name: "race", Token: token.Load()}))
	}
}

var errOutage = errors.New("no connection")

// flaky fails as many of the statements with a name as it is told.
type flaky struct {
	pg.DB
	name    string
	fail    int
	renewed chan struct{} // closed when a statement with the name succeeds
}

func (f *flaky) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if !strings.Contains(sql, f.name) {
		return f.DB.Exec(ctx, sql, args...)
	}
	if f.fail--; f.fail >= 0 {
		return pgconn.CommandTag{}, errOutage
	}
	tag, err := f.DB.Exec(ctx, sql, args...)
	if f.renewed != nil {
		close(f.renewed)
		f.renewed = nil
	}
	return tag, err
}

// hold holds a lease for work, and returns its error and what was logged.
func hold(t *testing.T, db pg.DB, ttl time.Duration, work func(context.Context, int64) error) (said string, err error) {
	t.Helper()
	var log bytes.Buffer
	ok, err := lease.Hold(t.Context(), db, slog.New(slog.NewTextHandler(&log, nil)), "x", "a", ttl, work)
	require.Equal(t, "held", ok, true)
	return log.String(), err
}

func untilLost(ctx context.Context, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestRenewalThatFailsIsTriedAgainUntilTheLeaseExpires(t *testing.T) {
	t.Parallel()
	renewed := make(chan struct{})
	db := &flaky{DB: pgtest.DB(t), name: "RenewLease", fail: 2, renewed: renewed}
	said, err := hold(t, db, 6*time.Second, func(ctx context.Context, _ int64) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-renewed:
			return nil
		}
	})
	require.Equal(t, "error and log after two failures", fmt.Sprint(err, said), "<nil>")
	const ttl = time.Second
	began := time.Now()
	_, err = hold(t, &flaky{DB: db.DB, name: "RenewLease", fail: 1000}, ttl, untilLost)
	require.ErrorIs(t, err, lease.ErrLost)
	require.ErrorIs(t, err, errOutage)
	require.Equal(t, "lost when it had expired", time.Since(began) >= ttl, true)
}

// late answers once the lease that it was asked for is over.
type late struct {
	*flaky
	t *testing.T
}

type lateRow struct {
	pgx.Row
	late
}

func (l late) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return lateRow{l.DB.QueryRow(ctx, sql, args...), l}
}

func (r lateRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	pgtest.Eventually(r.t, 30*time.Second, func() bool {
		return pgtest.Read[bool](r.t, r.DB, `SELECT expires_at <= clock_timestamp() FROM platform.leases`)
	}, "it runs out")
	return err
}

func TestLeaseBeginsWithTheQuestion(t *testing.T) {
	t.Parallel()
	db := &flaky{DB: pgtest.DB(t), name: "RenewLease", fail: 1000}
	_, err := hold(t, late{db, t}, time.Second, untilLost)
	require.ErrorIs(t, err, lease.ErrLost)
	require.Equal(t, "renewals that were asked for", 1000-db.fail, 1)
}

func TestLeaseOfAnotherHolderIsLostAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	const ttl = 6 * time.Second // a renewal is due after a third
	began := time.Now()
	_, err := hold(t, db, ttl, func(ctx context.Context, token int64) error {
		if _, err := db.Exec(ctx, `UPDATE platform.leases SET token = token + 1, expires_at = clock_timestamp() + interval '1 h'`); err != nil {
			return err
		}
		return untilLost(ctx, token)
	})
	require.ErrorIs(t, err, lease.ErrLost)
	require.Equal(t, "lost before it would have expired", time.Since(began) < ttl, true)
	mustNotAcquire(t, db, "x", "c") // the other holder's lease is not released
}

// lines are what a log says, a line each.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

func TestLeaderThatLosesItsLeaseSaysSoAndLeadsAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	said, led := make(lines, 100), make(chan struct{}, 1)
	pgtest.Work(t, func(ctx context.Context) error {
		return lease.Lead(ctx, db, "x", "a", 300*time.Millisecond, app.Loop{
			Every: 5 * time.Millisecond, Log: slog.New(slog.NewTextHandler(said, nil)), Failed: "it leads no more",
			Do: func(context.Context) error { app.Kick(led); return nil },
		})
	})
	<-led
	pgtest.Exec(t, db, `UPDATE platform.leases SET token = token + 1`)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(said) > 0 }, "what it says")
	require.Contains(t, "the log", <-said, "it leads no more", lease.ErrLost.Error())
	for range 2 { // one may be of before
		<-led
	}
}

func TestLeaseThatIsNotReleasedIsLogged(t *testing.T) {
	t.Parallel()
	db := &flaky{DB: pgtest.DB(t), name: "ReleaseLease", fail: 1}
	said, err := hold(t, db, time.Minute, func(context.Context, int64) error { return nil })
	require.NoError(t, err)
	require.Contains(t, "log", said, "level=WARN", "lease not released", "lease=x", errOutage.Error())
}
