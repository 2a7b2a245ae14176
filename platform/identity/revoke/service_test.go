package revoke

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/identity/revoke/internal/revokedb"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestARevocationIsInForceOnEveryInstance(t *testing.T) {
	t.Parallel()
	s := setup(t)
	here, there := s.start(t), s.start(t)
	if !here.lets(of(1)) || !there.lets(of(1)) {
		t.Fatal("a login that was not ended is refused")
	}
	before := there.Version()
	s.commit(t, here, 1)
	here.Tell(t.Context())
	require.Equal(t, "the revocation is in force on this instance when Tell returns", here.says(of(1)), true)
	pgtest.Eventually(t, within, func() bool { return there.says(of(1)) }, "the other instance refuses the login")
	if there.Version() == before {
		t.Error("the version did not change")
	}
	require.Equal(t, "another login of the user is admitted", there.lets(of(2)), true)
}

func TestARollbackRevokesNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	here := s.start(t)
	errNo := errors.New("no")
	err := pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error {
		if err := here.Logins(t.Context(), tx, "test", 1); err != nil {
			return err
		}
		if err := here.User(t.Context(), tx, "test", 7); err != nil {
			return err
		}
		here.Tell(t.Context()) // calling it too early is harmless
		return errNo
	})
	require.ErrorIs(t, err, errNo)
	here.Tell(t.Context())
	if !here.lets(of(1)) || here.list.len() != 0 {
		t.Error("a revocation that was rolled back is in force")
	}
}

// TestATransactionThatCommitsLateIsFound: its row is older than rows that were read
// before it became visible.
func TestATransactionThatCommitsLateIsFound(t *testing.T) {
	t.Parallel()
	s := setup(t)
	here := s.start(t)
	late := pgtest.Begin(t, s.db)
	require.NoError(t, here.Logins(t.Context(), late, "test", 1))
	for login := range int64(3) {
		s.commit(t, here, login+2)
		here.Tell(t.Context())
		if !here.says(of(login + 2)) {
			t.Fatalf("login %d is not ended", login+2)
		}
	}
	require.Equal(t, "the revocation is in force before its commit", here.says(of(1)), false)
	require.NoError(t, late.Commit(t.Context()))
	here.Tell(t.Context())
	require.Equal(t, "the late revocation is in force", here.says(of(1)), true)
}

func TestAUsersTokensEndByTheTimeOfTheirIssue(t *testing.T) {
	t.Parallel()
	s := setup(t)
	here, there := s.start(t), s.start(t)
	now := time.Now()
	issued := func(at time.Time, user int64) auth.Principal {
		return auth.Principal{UserID: user, Role: auth.Operator, IssuedAt: at}
	}
	err := pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { return here.User(t.Context(), tx, "test", 7) })
	require.NoError(t, err)
	here.Tell(t.Context())
	after := time.Now()
	pgtest.Eventually(t, within, func() bool { return there.says(issued(now, 7)) }, "the other instance refuses the user")
	for _, i := range []*instance{here, there} {
		for name, c := range map[string]struct {
			p       auth.Principal
			revoked bool
		}{
			"before":                       {issued(now, 7), true},
			"a month before":               {issued(now.Add(-auth.LongestLife), 7), true},
			"of a login":                   {auth.Principal{UserID: 7, Role: auth.Shopper, Login: 3, IssuedAt: now}, true},
			"without a time":               {auth.Principal{UserID: 7, Role: auth.Shopper}, true},
			"after, in the same second":    {issued(after.Truncate(time.Microsecond), 7), false},
			"by a clock ten minutes ahead": {issued(after.Add(10*time.Minute), 7), true},
			"another user's":               {issued(now, 8), false},
		} {
			if revoked, err := i.Revoked(t.Context(), c.p); revoked != c.revoked || err != nil {
				t.Errorf("a token from %s: revoked %v, %v", name, revoked, err)
			}
		}
	}
}

// TestALaterRevocationOfAUserCounts, and an older one that arrives after it does
// not.
func TestALaterRevocationOfAUserCounts(t *testing.T) {
	t.Parallel()
	l, base := newList(), time.Now().Truncate(time.Second)
	at := func(seconds int) revokedb.RevocationsSinceRow {
		until, expires, user := base.Add(time.Duration(seconds)*time.Second), base.Add(time.Hour), int64(7)
		return revokedb.RevocationsSinceRow{UserID: &user, IssuedBefore: &until, ExpiresAt: &expires}
	}
	for _, c := range []struct {
		seconds int
		version uint64
	}{{1, 1}, {3, 2}, {2, 2}, {3, 2}} {
		if l.add([]revokedb.RevocationsSinceRow{at(c.seconds)}); l.version.Load() != c.version {
			t.Errorf("after second %d the version is %d, want %d", c.seconds, l.version.Load(), c.version)
		}
	}
	p := auth.Principal{UserID: 7, IssuedAt: base.Add(2500 * time.Millisecond)}
	require.Equal(t, "the newer revocation is in force", l.covers(p, time.Now), true)
}

func TestAStartReadsWhatWasRevoked(t *testing.T) {
	t.Parallel()
	s := setup(t)
	first := s.start(t)
	s.commit(t, first, 1)
	first.Tell(t.Context())
	first.stop()
	second := s.build(t)
	if revoked, err := second.Revoked(t.Context(), of(2)); revoked || fault.From(err).Kind != fault.Unavailable {
		t.Errorf("before the first read: Revoked = %v, %v; want unavailable", revoked, err)
	}
	require.NoError(t, second.Load(t.Context()))
	if !second.says(of(1)) || !second.lets(of(2)) {
		t.Error("the revocations differ after a restart")
	}
	require.Equal(t, "connections in use without a worker", second.deps.DB.Stat().AcquiredConns(), 0)
}

// TestALoadWithoutPostgresFails, and the instance admits no token.
func TestALoadWithoutPostgresFails(t *testing.T) {
	t.Parallel()
	i := setup(t).build(t)
	i.postgres.Cut(true)
	if err := i.Load(t.Context()); err == nil {
		t.Fatal("Load succeeded without Postgres")
	}
	require.Equal(t, "the instance admits a token", i.lets(of(1)), false)
}

func TestExpiredRevocationsGo(t *testing.T) {
	t.Parallel()
	s := setup(t)
	i := s.start(t)
	s.commit(t, i, 1, 2)
	i.Tell(t.Context())
	pgtest.Exec(t, s.db, `UPDATE auth.revocations SET expires_at = clock_timestamp() - interval '1 second' WHERE login_id = 1`)
	require.NoError(t, i.forget(t.Context()))
	require.Equal(t, "rows that have not expired", pgtest.Read[int](t, s.db, `SELECT count(*) FROM auth.revocations`), 1)
	require.Equal(t, "revocations in memory, none of which has expired", i.list.len(), 2)
	// A revocation is kept longer than the last token that it ends.
	i.list.forget(time.Now().Add(auth.LongestLoginLife))
	require.Equal(t, "revocations in memory while a token may be valid", i.list.len(), 2)
	i.list.forget(time.Now().Add(auth.LongestLoginLife + 2*grace))
	require.Equal(t, "revocations in memory after all have expired", i.list.len(), 0)
}

// TestManyTellsReadOnce: a crowd that logs out must not cost one query each.
func TestManyTellsReadOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	i := s.build(t)
	s.commit(t, i, 1)
	const many = 100
	var group sync.WaitGroup
	for range many {
		group.Go(func() { i.Tell(t.Context()) })
	}
	pgtest.Eventually(t, within, func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return len(i.asked) == many
	}, "all callers wait")
	i.run(t)
	group.Wait()
	// One for the callers, and those of the clock on a slow machine.
	if n := i.reads.Load(); n > many/10 {
		t.Errorf("%d reads for %d concurrent calls", n, many)
	}
	require.Equal(t, "the revocation is read", i.says(of(1)), true)
}
