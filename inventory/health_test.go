package inventory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/inventory/books"
	"stampede/inventory/lua"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/redisx"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// backup copies everything in Redis and returns a function that restores it, like a failover that is reverted before
// the first primary has received the writes made meanwhile.
func (b *bundle) backup() (restore func()) {
	b.t.Helper()
	kept := make(map[string]string)
	for _, key := range b.rdb.Keys(b.t.Context(), "*").Val() {
		kept[key] = b.rdb.Dump(b.t.Context(), key).Val()
	}
	return func() {
		b.t.Helper()
		err := b.rdb.FlushDB(b.t.Context()).Err()
		for key, dump := range kept {
			if err == nil {
				err = b.rdb.Restore(b.t.Context(), key, 0, dump).Err()
			}
		}
		require.NoError(b.t, err)
	}
}

func (b *bundle) mustStand(item Item, want books.Status) {
	b.t.Helper()
	seen, err := b.Health(b.t.Context(), []Item{item})
	require.Equal(b.t, fmt.Sprint("status of item ", item.ID), []any{seen, err}, []any{[]books.Status{want}, nil})
	ready, err := b.Ready(b.t.Context(), item)
	require.Equal(b.t, fmt.Sprint("ready is item ", item.ID), fmt.Sprint(ready, err), fmt.Sprint(!want.Unready(), nil))
}

func TestHealthReturnsWhatAnItemNeeds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := b.create(onSale(1, 5))
	b.mustStand(item, books.NotThere)
	b.load(item)
	b.mustStand(item, books.Good)
	b.inTx(func(tx pgx.Tx) error { return b.Change(t.Context(), tx, item.ID, Change{AddStock: new(int32(2))}) })
	b.mustStand(item, Behind)
	b.apply(item)
	b.mustStand(item, books.Good)
	r, err := lua.Fence.Call(t.Context(), b.rdb, 4, []string{item.StateKey()}, 99)
	require.Equal(t, "fenced by another epoch", fmt.Sprint(r.Int(0), err), "0 <nil>")
	b.mustStand(item, books.Loading)
	b.rdb.HSet(t.Context(), item.StateKey(), "run_id", "another")
	b.mustStand(item, books.Restarted)
}

// The item decides, under an epoch that the order writer refuses, and the server has the same run id as when the item
// was loaded.
func TestAnItemBackAtAnOlderLoadIsOutdated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, kept := b.heldAndGone()
	back := b.backup()
	b.load(item)
	back()
	old := b.state(item)
	require.Equal(t, "gate", b.reserve(item, old.Epoch, one(3)).Gate, Open)
	b.mustStand(item, books.Outdated)
	b.mustNotBeOpen(item)
	b.load(item)
	b.mustStand(item, books.Good)
	b.mustHold(item, kept)
	require.Equal(t, "epoch after a Load that was reverted", b.state(item).Epoch, old.Epoch+2)
}

// The restored server made no grants under its epoch; those of the epoch after may not have reached the stream yet.
func TestALoadAfterAFailoverAndBackWaitsForPublishers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 5))
	back := b.backup()
	b.load(item)
	require.Equal(t, "grant by the other server", only(t, b.reserve(item, b.state(item).Epoch, one(1))).Verdict, Granted)
	back()
	b.store.PublishDeadline = time.Minute
	require.Equal(t, "waits", b.waits(b.Service, item), true)
}

// A Postgres that lost its last commits in a failover is behind a Redis that goes on deciding by them: the item is
// loaded from what is left, an operator's pause has effect, and nothing beyond the stock is granted.
func TestRedisAheadOfPostgresIsLoaded(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(b *bundle, item Item){
		"added stock": func(b *bundle, _ Item) {
			b.sql(`UPDATE inventory.stock SET total = total - 2, available = available - 2, rev = rev - 1, version = version - 1`)
		},
		"added stock, and a change since": func(b *bundle, item Item) {
			b.sql(`UPDATE inventory.stock SET total = total - 2, available = available - 2, rev = rev - 1, version = version - 1`)
			b.change(item, Change{Paused: new(false)})
		},
		"a Load": func(b *bundle, _ Item) { b.sql(`UPDATE inventory.stock SET epoch = epoch - 1, version = version - 1`) },
		"a closing": func(b *bundle, item Item) {
			no := b.written(item, 8)
			b.mustBring(b.close(no))
			b.orders.set(no, orderevent.StatusPending)
			b.sql(`UPDATE inventory.stock SET available = available - 1, version = version - 1`)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, epoch := b.loaded(onSale(1, 2))
			b.change(item, Change{AddStock: new(int32(2))})
			a := one(9)
			b.sell(item, epoch, a)
			b.mustStand(item, books.Good)
			lose(b, item)
			b.mustStand(item, books.Ahead)
			b.load(item)
			b.mustStand(item, books.Good)
			available := b.bookRowOf(item).Available
			require.Equal(t, "remaining", b.state(item).Remaining, available)
			b.change(item, Change{Paused: new(true)})
			require.Equal(t, "gate", b.reserve(item, b.state(item).Epoch, one(1)).Gate, Paused)
		})
	}
}

// A change, a Load or a return between Health's two reads is no sign of a loss.
func TestHealthIsNotMisledByWhatHappensMeanwhile(t *testing.T) {
	t.Parallel()
	for what, meanwhile := range map[string]func(b *bundle, item Item, no ids.ID){
		"a change": func(b *bundle, item Item, _ ids.ID) {
			b.change(item, Change{AddStock: new(int32(2))})
		},
		"a Load":   func(b *bundle, item Item, _ ids.ID) { b.load(item) },
		"a return": func(b *bundle, _ Item, no ids.ID) { b.mustBring(b.close(no)) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, _ := b.loaded(onSale(1, 2))
			no := b.written(item, 1)
			other := b.instance()
			other.store.Redis = redis.NewClient(b.rdb.Options())
			defer func() { _ = other.store.Redis.Close() }()
			other.store.Redis.AddHook(&beforeFirst{do: func() { meanwhile(b, item, no) }})
			seen, err := other.Health(t.Context(), []Item{item})
			require.Equal(t, "status", []any{seen, err}, []any{[]books.Status{books.Good}, nil})
		})
	}
}

// beforeFirst runs a function before a client's first pipeline.
type beforeFirst struct {
	sendsTwice
	once sync.Once
	do   func()
}

func (h *beforeFirst) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.once.Do(h.do)
		return next(ctx, cmds)
	}
}

func (b *bundle) sql(statement string) {
	b.t.Helper()
	pgtest.Exec(b.t, b.db, statement)
}

func (b *bundle) bookRowOf(item Item) BookRow {
	b.t.Helper()
	row, ok, err := b.Book(b.t.Context(), item.ID)
	require.Equal(b.t, "book", fmt.Sprint(ok, err), "true <nil>")
	return row
}

// Health reads the other nodes of a cluster although one is down.
func TestADeadNodeHidesItsOwnItemsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cluster := redistest.Shards(t, 2)
	rdb, err := redisx.Open(t.Context(), cluster.URL)
	require.NoError(t, err)
	defer func() { _ = rdb.Close() }()
	b.store.Redis = rdb
	var items []Item
	var at []*redistest.Server
	for id := int64(1); len(items) < 10 || !slices.ContainsFunc(at, func(s *redistest.Server) bool { return s != at[0] }); id++ {
		item := b.create(onSale(id, 5))
		b.load(item)
		items, at = append(items, item), append(at, cluster.Owner(t, item.StateKey()))
	}
	at[0].Kill()
	seen, err := b.Health(t.Context(), items)
	require.Equal(t, "error about the node that does not answer", err != nil, true)
	for i := range items {
		want := books.Good
		if at[i] == at[0] {
			want = Unseen
		}
		require.Equal(t, fmt.Sprint("status of item ", items[i].ID), seen[i], want)
	}
}

// An alarm and verify say why an item does not sell, whatever its status.
func TestEveryUnreadyStatusHasAReason(t *testing.T) {
	t.Parallel()
	for st := Unseen; st <= books.Ahead; st++ {
		require.Equal(t, fmt.Sprintf("status %d needs a Load and has a reason: %q", st, st.Why()), st.Unready(), st.Why() != "")
	}
}
