package lease_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

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

func TestOneHolderAtATimeAndTokensRise(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	first, ok := acquire(t, db, "load:1", "a", time.Hour)
	if !ok || first.Token != 1 || first.Name != "load:1" || first.Holder != "a" {
		t.Fatalf("first: %+v, %v", first, ok)
	}
	if _, ok := acquire(t, db, "load:1", "b", time.Hour); ok {
		t.Fatal("a second holder got a live lease")
	}
	if _, ok := acquire(t, db, "load:1", "a", time.Hour); ok {
		t.Fatal("the same holder got it twice")
	}
	if other, ok := acquire(t, db, "load:2", "b", time.Hour); !ok || other.Token != 1 {
		t.Fatalf("another name: %+v, %v", other, ok)
	}
	require.NoError(t, lease.Release(t.Context(), db, first))
	second, ok := acquire(t, db, "load:1", "b", time.Hour)
	if !ok || second.Token <= first.Token {
		t.Fatalf("after the release: %+v, %v", second, ok)
	}
	// The first holder slept through its lease: neither call affects the second.
	if ok, err := lease.Renew(t.Context(), db, first, time.Hour); err != nil || ok {
		t.Fatalf("renewed another holder's lease: %v, %v", ok, err)
	}
	require.NoError(t, lease.Release(t.Context(), db, first))
	if _, ok := acquire(t, db, "load:1", "c", time.Hour); ok {
		t.Fatal("a stale release ended another holder's lease")
	}
	if ok, err := lease.Renew(t.Context(), db, second, time.Hour); err != nil || !ok {
		t.Fatalf("renew: %v, %v", ok, err)
	}
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
	if second.Token <= first.Token {
		t.Fatalf("tokens %d, then %d", first.Token, second.Token)
	}
	// It was not acquired since, so it may be renewed after its expiry.
	pgtest.Eventually(t, 30*time.Second, func() bool {
		var over bool
		require.NoError(t, db.QueryRow(t.Context(), `SELECT expires_at <= clock_timestamp() FROM platform.leases`).Scan(&over))
		return over
	}, "the second runs out")
	if ok, err := lease.Renew(t.Context(), db, second, time.Hour); err != nil || !ok {
		t.Fatalf("renew: %v, %v", ok, err)
	}
	if _, ok := acquire(t, db, "x", "c", time.Hour); ok {
		t.Fatal("a renewed lease was taken")
	}
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
		if winners.Load() != 1 || token.Load() != int64(round+1) {
			t.Fatalf("round %d: %d winners, token %d", round, winners.Load(), token.Load())
		}
		require.NoError(t, lease.Release(t.Context(), db, lease.Lease{Name: "race", Token: token.Load()}))
	}
}
