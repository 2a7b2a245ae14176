package redisx_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/store/redisx"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// counted calls Look and returns how many servers it found to have taken over.
func counted(t *testing.T, takeovers *redisx.Takeovers) int {
	t.Helper()
	var n atomic.Int32
	err := takeovers.Look(t.Context(), func(context.Context, redis.Cmdable) error { n.Add(1); return nil })
	require.NoError(t, err)
	return int(n.Load())
}

func TestTakeoversFindsAPromotedReplica(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	mine := redisx.NewTakeovers(primary.Client, "test:")
	failure := errors.New("not done")
	require.ErrorIs(t, mine.Look(t.Context(), func(context.Context, redis.Cmdable) error { return failure }), failure)
	for i, c := range []struct {
		who  *redisx.Takeovers
		want int
	}{
		{mine, 1}, // a failed call is repeated
		{mine, 0},
		{redisx.NewTakeovers(primary.Client, "test:"), 0}, // another instance
		{redisx.NewTakeovers(primary.Client, "other:"), 1},
	} {
		require.Equal(t, fmt.Sprint("takeovers found by call ", i), counted(t, c.who), c.want)
	}

	replica := redistest.StartReplica(t, primary)
	require.NoError(t, replica.Client.ReplicaOf(t.Context(), "NO", "ONE").Err())
	// It was never checked before, so only its key can tell.
	promoted := redisx.NewTakeovers(replica.Client, "test:")
	require.Equal(t, "takeovers on the promoted replica", counted(t, promoted), 1)
	require.Equal(t, "takeovers found again", counted(t, promoted), 0)
}

// The first server comes back under its old name without any of the writes to
// its successor.
func TestTakeoversFindsAServerThatCameBack(t *testing.T) {
	t.Parallel()
	first, second := redistest.Start(t), redistest.Start(t)
	var reigns atomic.Pointer[redistest.Server]
	reigns.Store(first)
	rdb := redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", reigns.Load().Addr)
	}})
	defer func() { _ = rdb.Close() }()
	failOver := func(to *redistest.Server) {
		reigns.Store(to)
		for _, s := range []*redistest.Server{first, second} {
			require.NoError(t, s.Client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
		}
	}
	watching := redisx.NewTakeovers(rdb, "test:")
	for _, to := range []*redistest.Server{first, second, first} {
		failOver(to)
		require.Equal(t, "takeovers of a server", counted(t, watching), 1)
		require.Equal(t, "takeovers found again", counted(t, watching), 0)
	}
}

func TestTakeoversAndCheckVisitEveryClusterNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.Shards(t, 3)
	rdb, err := redisx.Open(t.Context(), cluster.URL)
	require.NoError(t, err)
	defer func() { _ = rdb.Close() }()
	require.Equal(t, "primaries checked", counted(t, redisx.NewTakeovers(rdb, "test:")), 3)
	require.Equal(t, "primaries settled again", counted(t, redisx.NewTakeovers(rdb, "test:")), 0)

	// Check names a node with a different setting, and a node that is down does
	// not prevent a start.
	bad, gone := cluster.Primaries[1], cluster.Primaries[2]
	require.NoError(t, bad.Client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	var warnings []string
	check := func() error {
		warnings = nil
		return redisx.Check(t.Context(), rdb, func(w string) { warnings = append(warnings, w) })
	}
	err = check()
	want := "Redis at " + bad.Addr + " has maxmemory-policy allkeys-lru, want noeviction: Redis may evict the books of a running sale"
	require.NoError(t, err)
	require.Equal(t, "warnings", warnings, []string{want})
	gone.Kill()
	err = check()
	require.Equal(t, "warnings with a node down", fmt.Sprint(len(warnings), err), "2 <nil>")
}

// By default the client refreshes its view of a cluster only once a minute.
func TestClientFollowsAClusterFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.Shards(t, 3)
	rdb, err := redisx.Open(t.Context(), cluster.URL)
	require.NoError(t, err)
	defer func() { _ = rdb.Close() }()
	victim := cluster.Owner(t, "key")
	cluster.AddReplica(t, victim)
	set := func() bool { return rdb.Set(t.Context(), "key", 1, 0).Err() == nil }
	require.Equal(t, "the key is set", set(), true)
	victim.Kill()
	// 1 s until the node counts as dead, 1.5 s for the election, 1 s for the client.
	pgtest.Eventually(t, 3*3500*time.Millisecond, set, "the client to use the replica that took over")
}
