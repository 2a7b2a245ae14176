package revoke

import (
	"context"
	"runtime"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/revoke/internal/revokedb"
	"stampede/platform/workshop/require"
)

const crowd = 10_000

// TestRevocationsAreSmall: the list must not evict entries, because that would let
// revoked tokens in. Only the size of an entry bounds the memory.
func TestRevocationsAreSmall(t *testing.T) {
	const most = 100 // bytes each, including the map's overhead
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	l, expires := newList(), time.Now().Add(time.Hour)
	before := heap()
	for i := range int64(crowd) {
		login := i + 1
		l.add([]revokedb.RevocationsSinceRow{{LoginID: &login, ExpiresAt: &expires}})
	}
	if each := int64(heap()-before) / crowd; each > most {
		t.Errorf("a revocation takes %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(l)
}

// loaded is a Service with 10,000 ended logins and as many users in memory.
func loaded(t testing.TB) *instance {
	t.Helper()
	i := setup(t).build(t)
	require.NoError(t, i.Load(t.Context()))
	expires, until := time.Now().Add(time.Hour), time.UnixMicro(1)
	for n := range int64(crowd) {
		id := n + 1
		i.list.add([]revokedb.RevocationsSinceRow{{LoginID: &id, ExpiresAt: &expires}, {UserID: &id, IssuedBefore: &until, ExpiresAt: &expires}})
	}
	return i
}

func TestAskingAllocatesNothing(t *testing.T) {
	i, ctx := loaded(t), context.Background()
	for name, p := range map[string]auth.Principal{
		"good": of(crowd + 1), "ended": of(1), "minted": {UserID: crowd + 1, IssuedAt: time.Now()},
	} {
		require.Equal(t, name+": allocations", testing.AllocsPerRun(100, func() { _, _ = i.Revoked(ctx, p) }), 0)
	}
}
