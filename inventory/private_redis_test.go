package inventory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
	"stampede/platform/store/redisx"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// On a cluster a script would fail if it touched a key that it does not
// declare, or one of another slot.
func TestOnARedisCluster(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cluster, err := redisx.Open(t.Context(), redistest.Shards(t, 1).URL)
	require.NoError(t, err)
	defer func() { _ = cluster.Close() }()
	b.deps.Redis = cluster

	n := onSale(1, 5)
	n.PerActivity = true
	item, epoch := b.loaded(n)
	x, y, z := one(1), one(2), one(3)
	b.reserve(item, epoch, x, y, z)
	b.write(item, epoch, x, y)
	b.mustCommit(b.pay(x.No))
	b.mustRelease(b.close(y.No))
	b.inTx(func(tx pgx.Tx) error { return b.Change(t.Context(), tx, item.ID, Change{AddStock: new(int32(2))}) })
	require.NoError(t, b.Apply(t.Context(), item.ID))
	mustBe(t, "sequence", func() int64 { _, _, seq, _, _, _ := b.Hold(t.Context(), item, 3); return seq }(), 3)
	b.mustBeClean()
	b.load(item)
	st := b.state(item)
	mustBe(t, "books", fmt.Sprint(st.Total, st.Remaining, st.Committed), "7 6 1")
	b.mustBeClean()
}

// A full Redis refuses to grant units, before anything is written, and still
// accepts returns.
func TestFullRedisStillTakesUnitsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rdb := redistest.Start(t).Client
	b.deps.Redis = rdb
	item, epoch := b.loaded(onSale(1, 5))
	x, y := one(1), one(2)
	b.reserve(item, epoch, x, y)
	b.write(item, epoch, x)
	before := b.state(item)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	var d Decision
	if err := b.Reserve(t.Context(), item, epoch, []Attempt{one(3)}, &d); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("a full Redis decided: %v", err)
	}
	mustBe(t, "state after the refusal", b.state(item), before)
	if err := b.Persisted(t.Context(), item, epoch, []ids.ID{y.No}); err != nil {
		t.Error(err)
	}
	b.mustCommit(b.pay(x.No))
	b.mustRelease(b.close(x.No))
	mustBe(t, "remaining", b.state(item).Remaining, 4)
}
