package pg_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"stampede/platform/store/pg"
	"stampede/platform/workshop/linktest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// forgettable returns a link to a database, and the database's URL through it.
func forgettable(t *testing.T, databaseURL string) (*linktest.Link, string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(databaseURL)
	require.NoError(t, err)
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	link := linktest.New(t, network, address)
	host, port, err := net.SplitHostPort(link.Addr())
	require.NoError(t, err)
	return link, fmt.Sprintf("host=%s port=%s user=%s password='%s' dbname=%s sslmode=disable", host, port, cfg.User, cfg.Password, cfg.Database)
}

const (
	check   = 20 * time.Millisecond
	silence = 300 * time.Millisecond
)

// watch keeps a lock's holder alive and returns the end of its Watch.
func watch(t *testing.T, l *pg.InstanceLock) (ended <-chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Watch(ctx) }()
	t.Cleanup(cancel)
	return done, cancel
}

func holder(t *testing.T, url string) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	return pgtest.Read[int](t, conn, `SELECT coalesce((SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())), 0)`)
}

// TestInstanceLockOutlivesItsConnection: the process takes the lock from its own
// old session, which Postgres still believes in, and goes on.
func TestInstanceLockOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	url := pgtest.DatabaseURL(t)
	link, through := forgettable(t, url)
	lock, err := pg.AcquireInstanceLockWithin(t.Context(), through, check, silence)
	require.NoError(t, err)
	ended, stop := watch(t, lock)
	for range 2 {
		before := holder(t, url)
		link.Forget()
		pgtest.Eventually(t, 30*time.Second, func() bool { now := holder(t, url); return now != 0 && now != before }, "a new session to take the lock")
	}
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, lock.Close(t.Context()))
	require.Equal(t, "holder after Close", holder(t, url), 0)
}

// TestStartEndsTheSessionOfADeadHolder: the process was killed, and Postgres did
// not notice.
func TestStartEndsTheSessionOfADeadHolder(t *testing.T) {
	t.Parallel()
	url := pgtest.DatabaseURL(t)
	link, through := forgettable(t, url)
	dead, err := pg.AcquireInstanceLockWithin(t.Context(), through, check, silence)
	require.NoError(t, err)
	link.Forget()
	began := time.Now()
	lock, err := pg.AcquireInstanceLockWithin(t.Context(), url, check, silence)
	require.NoError(t, err)
	if took := time.Since(began); took < silence {
		t.Errorf("the lock changed hands after %s, before the holder was silent for %s", took, silence)
	}
	// It was only frozen: it finds its lock taken, by a process that lives.
	_, stop := watch(t, lock)
	ended, _ := watch(t, dead)
	require.ErrorIs(t, <-ended, pg.ErrInstanceLocked)
	stop()
}

// TestStartSparesALiveHolder: neither a holder that checks its connection nor a
// session that is not Stampede's is ended.
func TestStartSparesALiveHolder(t *testing.T) {
	t.Parallel()
	url := pgtest.DatabaseURL(t)
	lock, err := pg.AcquireInstanceLockWithin(t.Context(), url, check, silence)
	require.NoError(t, err)
	ended, stop := watch(t, lock)
	before := holder(t, url)
	_, err = pg.AcquireInstanceLockWithin(t.Context(), url, check, time.Minute)
	require.ErrorIs(t, err, pg.ErrInstanceLocked)
	require.Equal(t, "holder", holder(t, url), before)
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, lock.Close(t.Context()))

	other := pgtest.Connect(t, url)
	pgtest.Exec(t, other, `SELECT pg_advisory_lock($1)`, int64(0x7374616d70656465))
	_, err = pg.AcquireInstanceLockWithin(t.Context(), url, time.Second, time.Minute)
	require.ErrorIs(t, err, pg.ErrInstanceLocked)
}

// TestInstancesWithACommonBusShareTheLock, of which none starts beside one that is alone. They are
// instances of one shop: a start among them ends no lease of the others.
func TestInstancesWithACommonBusShareTheLock(t *testing.T) {
	t.Parallel()
	url := pgtest.DatabaseURL(t)
	db := pgtest.Connect(t, url)
	share := func() (*pg.InstanceLock, error) {
		return pg.ShareInstanceLockWithin(t.Context(), url, check, time.Minute)
	}
	alone := func() (*pg.InstanceLock, error) {
		return pg.AcquireInstanceLockWithin(t.Context(), url, check, time.Minute)
	}
	pgtest.Exec(t, db, `INSERT INTO platform.leases (name, holder, token, expires_at) VALUES ('job', 'one', 1, now() + interval '1 hour')`)
	var ends []func()
	for range 2 {
		l, err := share()
		require.NoError(t, err)
		ended, stop := watch(t, l)
		ends = append(ends, func() {
			stop()
			require.NoError(t, <-ended)
			require.NoError(t, l.Close(t.Context()))
		})
	}
	require.Equal(t, "leases", pgtest.Read[int](t, db, `SELECT count(*) FROM platform.leases WHERE expires_at > now()`), 1)
	for _, end := range ends {
		_, err := alone()
		require.ErrorIs(t, err, pg.ErrInstanceLocked)
		end()
	}
	single, err := alone()
	require.NoError(t, err)
	watch(t, single)
	_, err = share()
	require.ErrorIs(t, err, pg.ErrInstanceLocked)
}

// TestStartEndsTheSessionsOfDeadHoldersThatShare: one after the other.
func TestStartEndsTheSessionsOfDeadHoldersThatShare(t *testing.T) {
	t.Parallel()
	url := pgtest.DatabaseURL(t)
	link, through := forgettable(t, url)
	for range 2 {
		_, err := pg.ShareInstanceLockWithin(t.Context(), through, check, silence)
		require.NoError(t, err)
	}
	link.Forget()
	lock, err := pg.AcquireInstanceLockWithin(t.Context(), url, check, silence)
	require.NoError(t, err)
	require.NoError(t, lock.Close(t.Context()))
}
