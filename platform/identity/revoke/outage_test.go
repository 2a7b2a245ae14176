package revoke

import (
	"testing"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// TestAnInstanceWithoutPostgresAnswersFromMemory, and catches up once Postgres is back.
func TestAnInstanceWithoutPostgresAnswersFromMemory(t *testing.T) {
	t.Parallel()
	s := setup(t)
	here, there := s.start(t), s.start(t)
	s.commit(t, here, 1)
	pgtest.Eventually(t, within, func() bool { return there.says(of(1)) }, "the login is refused")
	there.postgres.Cut(true)
	there.Tell(t.Context()) // returns, although nothing can be read
	s.commit(t, here, 2)
	require.Equal(t, "a known revocation is in force", there.says(of(1)), true)
	require.Equal(t, "a valid token is admitted", there.lets(of(3)), true)
	there.postgres.Cut(false)
	pgtest.Eventually(t, within, func() bool { return there.says(of(2)) }, "the login that was ended meanwhile is refused")
}

// TestHangingPostgresDelaysNoCheck: only the poll waits.
func TestHangingPostgresDelaysNoCheck(t *testing.T) {
	t.Parallel()
	s := setup(t)
	i := s.start(t)
	s.commit(t, i, 1)
	i.Tell(t.Context())
	release := pgtest.Locked(t, s.db, `LOCK TABLE auth.revocations IN ACCESS EXCLUSIVE MODE`)
	i.Tell(t.Context())
	if !i.says(of(1)) || !i.lets(of(2)) {
		t.Error("the answers changed while Postgres hangs")
	}
	release()
	s.commit(t, i, 2)
	pgtest.Eventually(t, 2*within, func() bool { return i.says(of(2)) }, "the poll goes on")
}

// TestALostConnectionReadsEverythingAgain: after a failover a new row may have a
// smaller transaction number than rows that were read before.
func TestALostConnectionReadsEverythingAgain(t *testing.T) {
	t.Parallel()
	s := setup(t)
	i := s.start(t)
	s.commit(t, i, 1)
	i.Tell(t.Context())
	pgtest.Exec(t, s.db, `INSERT INTO auth.revocations (login_id, why, expires_at, xact) VALUES (2, 'test', now() + '1 hour', '3')`)
	i.Tell(t.Context())
	require.Equal(t, "a read starts at the first row", i.says(of(2)), false)
	i.postgres.Cut(true)
	i.postgres.Cut(false)
	pgtest.Eventually(t, within, func() bool { return i.says(of(2)) }, "the login is refused")
}
