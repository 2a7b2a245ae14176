package redisx_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"stampede/platform/store/redisx"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// openLocks opens locks on n servers of this test.
func openLocks(t *testing.T, n int) (*redisx.Locks, []*redistest.Server) {
	t.Helper()
	var urls []string
	var servers []*redistest.Server
	for range n {
		s := redistest.Start(t)
		servers, urls = append(servers, s), append(urls, "redis://"+s.Addr)
	}
	l, err := redisx.OpenLocks(t.Context(), slog.New(slog.DiscardHandler), pgtest.Redis(t), urls...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, servers
}

// acquire takes the lock for a minute.
func acquire(t *testing.T, l *redisx.Locks) (release func()) {
	t.Helper()
	release, err := l.Acquire(t.Context(), "k", time.Minute)
	require.NoError(t, err)
	return release
}

// taken fails unless another holds the lock.
func taken(t *testing.T, l *redisx.Locks) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, "k", time.Minute) // while another holds the lock
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestLocksWorkWithTwoOfThreeNodes(t *testing.T) {
	t.Parallel()
	l, servers := openLocks(t, 3)
	release := acquire(t, l)
	servers[1].Kill()
	taken(t, l)
	release()
	release = acquire(t, l)
	taken(t, l)
	release()
	for _, i := range []int{0, 2} {
		require.Equal(t, "released lock on a node", servers[i].Client.Exists(t.Context(), "k").Val(), 0)
	}
	servers[2].Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := l.Acquire(ctx, "k", time.Minute)
	require.Equal(t, "one node of three refuses, before the deadline", err != nil && ctx.Err() == nil, true)
}

func TestLateReleaseLeavesTheNextHolderAlone(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 3} {
		l, servers := openLocks(t, n)
		if n == 0 {
			shop := pgtest.Redis(t)
			servers = []*redistest.Server{{Client: shop}}
			var err error
			l, err = redisx.OpenLocks(t.Context(), slog.New(slog.DiscardHandler), shop)
			require.NoError(t, err)
		}
		late := acquire(t, l)
		for _, s := range servers {
			require.NoError(t, s.Client.Del(t.Context(), "k").Err()) // as if it had expired
		}
		release := acquire(t, l)
		late()
		taken(t, l)
		release()
		acquire(t, l)()
	}
}
