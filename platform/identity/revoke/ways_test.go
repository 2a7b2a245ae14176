package revoke

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"stampede/platform/base/fault"
	"stampede/platform/workshop/pgtest"
)

// TestEachWayIsEnough leaves each of three instances only one channel.
func TestEachWayIsEnough(t *testing.T) {
	t.Parallel()
	s := setup(t)
	here := s.start(t)
	type ways struct{ bus, postgres, redis bool }
	there := map[string]*instance{}
	for name, keep := range map[string]ways{"the bus": {bus: true}, "Postgres": {postgres: true}, "Redis": {redis: true}} {
		i := s.start(t)
		i.broadcasts.cut.Store(!keep.bus)
		i.postgres.set(!keep.postgres)
		i.store.set(!keep.redis)
		there[name] = i
	}
	s.commit(t, here, 1)
	here.Tell(t.Context())
	for name, i := range there {
		pgtest.Eventually(t, within, func() bool { return i.says(of(1)) }, "an instance that has only "+name+" refuses the login")
	}
	// They still answer once the staleness limit has passed.
	began := time.Now()
	pgtest.Eventually(t, within, func() bool { return time.Since(began) > staleAfter+lookEvery }, "a second and a half")
	for name, i := range there {
		pgtest.Eventually(t, within, func() bool { return i.lets(of(2)) }, "an instance that has only "+name+" lets a good token in")
	}
}

// TestAnInstanceThatIsCutOffRefuses, rather than admit a revoked token.
func TestAnInstanceThatIsCutOffRefuses(t *testing.T) {
	t.Parallel()
	s := setup(t)
	there := s.start(t)
	s.commit(t, there, 1)
	there.Tell(t.Context())
	there.broadcasts.cut.Store(true)
	there.postgres.set(true)
	there.store.set(true)
	pgtest.Eventually(t, within, func() bool { return !there.lets(of(2)) }, "an unknown token is refused")
	revoked, err := there.Revoked(t.Context(), of(2))
	if f := fault.From(err); revoked || f == nil || f.Kind != fault.Unavailable || f.RetryAfter <= 0 {
		t.Errorf("cut off, Revoked = %v, %v; want unavailable", revoked, err)
	}
	if !there.says(of(1)) {
		t.Error("a known revocation is no longer reported")
	}
	if testutil.ToFloat64(there.m.cutOff) == 0 {
		t.Error("the refusals are not counted")
	}
	there.store.set(false)
	pgtest.Eventually(t, within, func() bool { return there.lets(of(2)) }, "the instance answers again once Redis is back")
	looks := testutil.ToFloat64(there.m.looks.WithLabelValues("postgres"))
	there.postgres.set(false)
	pgtest.Eventually(t, within, func() bool {
		return testutil.ToFloat64(there.m.looks.WithLabelValues("postgres")) > looks
	}, "Postgres is read again once it is back")
}

// TestHangingPostgresFallsBackToRedis: the read times out, and Redis answers in the
// same turn.
func TestHangingPostgresFallsBackToRedis(t *testing.T) {
	t.Parallel()
	s := setup(t)
	there := s.start(t)
	there.broadcasts.cut.Store(true)
	tx, err := s.db.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `LOCK TABLE auth.revocations IN ACCESS EXCLUSIVE MODE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	asked := testutil.ToFloat64(there.m.looks.WithLabelValues("redis"))
	pgtest.Eventually(t, 2*within, func() bool {
		return testutil.ToFloat64(there.m.looks.WithLabelValues("redis")) >= asked+3 && there.lets(of(2))
	}, "Redis is read instead and a valid token admitted, past the staleness of the last Postgres read")
}

// TestFinderOfAnUnannouncedRowBroadcastsIt: the revoking process died after the commit.
func TestFinderOfAnUnannouncedRowBroadcastsIt(t *testing.T) {
	t.Parallel()
	s := setup(t)
	here, busOnly, redisOnly := s.start(t), s.start(t), s.start(t)
	busOnly.postgres.set(true)
	busOnly.store.set(true)
	redisOnly.postgres.set(true)
	redisOnly.broadcasts.cut.Store(true)
	s.commit(t, here, 1)
	pgtest.Eventually(t, within, func() bool { return busOnly.says(of(1)) }, "it was broadcast")
	pgtest.Eventually(t, within, func() bool { return redisOnly.says(of(1)) }, "it was written to Redis")
}

// TestRedisIsWrittenOnceItIsBack: entries are queued while Redis is down and written
// afterwards.
func TestRedisIsWrittenOnceItIsBack(t *testing.T) {
	t.Parallel()
	s := setup(t)
	here, there := s.start(t), s.start(t)
	there.broadcasts.cut.Store(true) // so that the other instance does not write to Redis
	there.postgres.set(true)
	here.store.set(true)
	s.commit(t, here, 1)
	here.Tell(t.Context())
	if there.says(of(1)) {
		t.Fatal("the revocation arrived over a channel that is cut")
	}
	here.store.set(false)
	pgtest.Eventually(t, within, func() bool { return there.says(of(1)) }, "the revocation was written to Redis eventually")
}
