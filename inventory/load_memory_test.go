package inventory

import (
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// soldTo creates an item and grants units of it to so many users; all their
// orders are written.
func (b *bundle) soldTo(n NewStock, holders int32) Item {
	b.t.Helper()
	item, epoch := b.loaded(n)
	for from := int32(0); from < holders; from += MaxBatch {
		attempts := make([]Attempt, min(MaxBatch, holders-from))
		nos := make([]ids.ID, len(attempts))
		for i := range attempts {
			attempts[i] = one(int64(from) + int64(i) + 1)
			nos[i] = attempts[i].No
			b.orders.put(item, attempts[i], epoch, orderevent.StatusPending)
		}
		b.reserve(item, epoch, attempts...)
		require.NoError(b.t, b.Persisted(b.t.Context(), item, epoch, nos))
	}
	b.inTx(func(tx pgx.Tx) error {
		return b.Deduct(b.t.Context(), tx, []Movement{{Key: Key{ItemID: item.ID}, Quantity: holders}})
	})
	return item
}

// memory is how much Redis uses.
func (b *bundle) memory(rdb *redis.Client) int64 {
	b.t.Helper()
	used, err := strconv.ParseInt(rdb.InfoMap(b.t.Context(), "memory").Item("Memory", "used_memory"), 10, 64)
	require.NoError(b.t, err)
	return used
}

// A Load of an item whose data is intact fits into a Redis that has a fifth of
// the item's size left, and so does one that has much to repair.
func TestLoadNeedsNoSecondCopyInRedis(t *testing.T) {
	t.Parallel()
	const holders = 20_000
	b := setup(t)
	rdb := redistest.Start(t).Client
	b.deps.Redis = rdb
	empty := b.memory(rdb)
	item := b.soldTo(onSale(1, holders+10), holders)
	full := b.memory(rdb)
	limit := full + (full-empty)/5
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", strconv.FormatInt(limit, 10)).Err())
	b.otherRun(item)
	b.load(item)
	mustBe(t, "remaining", b.state(item).Remaining, 10)

	// A third of the holders is unknown to Postgres, and as many are unknown here.
	users := item.usersKey(b.state(item).Epoch)
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for user := range int64(holders / 3) {
			p.HDel(t.Context(), users, strconv.FormatInt(user+1, 10))
			p.HSet(t.Context(), users, user+1e6, ids.NewFor(user).String())
		}
		return nil
	})
	require.NoError(t, err)
	b.load(item)
	b.mustBeClean()
	if size := rdb.HLen(t.Context(), item.usersKey(b.state(item).Epoch)).Val(); size != holders+1 {
		t.Errorf("%d users", size)
	}
}
