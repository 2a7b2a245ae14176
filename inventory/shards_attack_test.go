package inventory

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// An unlimited item counts below zero: its total may be 0 while thousands of its units are in live orders.
func TestLoadGivesARunningUnlimitedItemMoreShards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 0)
	n.Unlimited = true
	item, epoch := b.loaded(n)
	for k := range 3 {
		b.sell(item, epoch, at(1, k))
	}
	b.store.StockShards = 4
	require.Equal(t, "the Load", fmt.Sprint(b.Load(t.Context(), 1)), "<nil>")
	require.Equal(t, "shards", b.state(item).Shards, int16(4))
	b.proven()
}

// One that has shards from the beginning keeps working; a Load that adds none changes nothing.
func TestUnlimitedItemWithShards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 0)
	n.Unlimited = true
	item, epoch := b.sharded(n)
	for k := range 3 {
		b.sell(item.Counter(1), epoch, at(1, k))
	}
	b.proven()
	b.load(item)
	b.store.StockShards = 7
	require.Equal(t, "the Load", fmt.Sprint(b.Load(t.Context(), 1)), "<nil>")
}

// What looks at the items that close first looks at whole items: a shard without the others says nothing of its item.
func TestItemsOnSaleAreNotCutBetweenShards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	later := onSale(2, 400)
	later.ClosesAt = later.ClosesAt.Add(time.Minute)
	b.sharded(later)
	b.sharded(onSale(1, 400))
	for most, want := range map[int32]string{1: "1 1 1 1", 2: "1 1 1 1 2 2 2 2"} {
		rows, err := b.store.StockOnSale(t.Context(), most)
		require.NoError(t, err)
		var items []string
		for _, st := range rows {
			items = append(items, fmt.Sprint(st.ItemID))
		}
		require.Equal(t, "rows of items on sale", strings.Join(items, " "), want)
	}
}

// through is another process, which does something between the answer of Redis to a command, or to the first of a
// pipeline, and its caller.
func (b *bundle) through(do func(cmd redis.Cmder)) *Service {
	b.t.Helper()
	client := redis.NewClient(b.rdb.Options())
	b.t.Cleanup(func() { require.NoError(b.t, client.Close()) })
	client.AddHook(redistest.Around(func(_ context.Context, cmds []redis.Cmder, next func() error) error {
		err := next()
		if err == nil {
			do(cmds[0])
		}
		return err
	}))
	return b.on(client)
}

// An answer from before a Load that arrives after it must not make this process ask the wrong shard about a user.
func TestLateAnswerDoesNotHideAHolder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 1000))
	holder := at(2, 0)
	b.sell(item, epoch, holder)

	arm, asked, release := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	door := b.through(func(cmd redis.Cmder) { // as a slow network does
		if strings.HasPrefix(cmd.Name(), "eval") {
			select {
			case <-arm:
				close(asked)
				<-release
			default:
			}
		}
	})
	b.Service = b.instance()
	b.store.StockShards = 4

	done := make(chan error, 1)
	go func() {
		var d Decision
		arm <- struct{}{}
		done <- door.Reserve(t.Context(), item, epoch, []Attempt{at(0, 3)}, &d)
	}()
	<-asked // Redis has decided, under one shard; the answer is on its way
	st := b.state(item)
	require.Equal(t, "granted", st.Seq, int64(2))
	b.orders.put(item, at(0, 3), epoch, "pending_payment")
	b.inTx(func(tx pgx.Tx) error {
		return b.Deduct(t.Context(), tx, []Movement{{Key: Key{ItemID: 1}, Quantity: 1}})
	})
	b.rdb.HSet(t.Context(), item.StateKey(), "persisted", 2)
	b.load(item)
	// The process has looked at the item since, as any poll does.
	for _, a := range []Attempt{holder, at(0, 3)} {
		_, _, _, _, _, err := door.Hold(t.Context(), item, a.User)
		require.NoError(t, err)
	}
	no, _, _, _, ok, err := door.Hold(t.Context(), item, holder.User)
	require.Equal(t, "before the late answer", fmt.Sprint(no, ok, err), fmt.Sprint(holder.No, true, nil))
	close(release)
	require.NoError(t, <-done)
	no, _, _, _, ok, err = door.Hold(t.Context(), item, holder.User)
	require.Equal(t, "after it", fmt.Sprint(no, ok, err), fmt.Sprint(holder.No, true, nil))
}

// An item that was preheated and deleted before its sale leaves nothing in Redis.
func TestForgetRemovesEveryShard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 400)
	n.OpensAt = time.Now().Add(time.Hour)
	n.ClosesAt = time.Now().Add(2 * time.Hour)
	item, _ := b.sharded(n)
	b.inTx(func(tx pgx.Tx) error { return b.Delete(t.Context(), tx, []int64{1}) })
	require.NoError(t, b.Forget(t.Context(), item))
	keys, err := b.rdb.Keys(t.Context(), "*g:i1:*").Result()
	require.Equal(t, "keys left", fmt.Sprint(keys, err), "[] <nil>")
}

// Units that move between shards while an item is read are no difference of its books.
func TestMovesDuringAReadAreNoViolation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.sharded(onSale(1, 400))
	for k := range 10 {
		b.sell(item.Counter(1), epoch, at(1, k))
		b.sell(item.Counter(2), epoch, at(2, k))
		b.sell(item.Counter(3), epoch, at(3, k))
	}
	borrower, first := item.Counter(3), item.Counter(1).HoldsKey(epoch)
	moving := b.through(func(cmd redis.Cmder) { // after one shard is read, and before the others
		if cmd.Name() != "hscan" || fmt.Sprint(cmd.Args()[1]) != first {
			return
		}
		st, _, err := b.store.State(t.Context(), borrower)
		require.NoError(t, err)
		_, err = b.Borrow(t.Context(), borrower, 4, st.Remaining+1)
		require.NoError(t, err)
	})
	for _, c := range moving.Checks() {
		found, err := c.Run(t.Context())
		if len(found) > 0 || err != nil {
			t.Errorf("%s: %v %v", c.Name, found, err)
		}
	}
	b.proven()
}

// An operator lowers the stock of a preheated item before its opening, so that it gets fewer shards: a lane that knows
// the ones of before must not be granted units that no stock row has.
func TestRestockedItemHasNoStrayShard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 400)
	item, epoch := b.sharded(n)
	n.Total = 100
	b.inTx(func(tx pgx.Tx) error {
		if err := b.Delete(t.Context(), tx, []int64{1}); err != nil {
			return err
		}
		return b.Create(t.Context(), tx, n)
	})
	require.NoError(t, b.Forget(t.Context(), item))
	b.load(item)
	require.Equal(t, "rows", b.available(1), []int32{100})
	d := b.reserve(item.Counter(2), epoch, at(2, 0))
	if d.Gate != Fenced {
		t.Errorf("shard 2, which has no stock row, decides: gate %v, %d remaining, %v", d.Gate, d.Remaining, d.Results)
	}
}

// A unit that comes back and is granted again between the two readings was free meanwhile: they prove nothing, so that
// the item is read again while no unit can move.
func TestUnitThatComesBackBetweenTwoReadings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.sharded(onSale(1, 400))
	var sold []Attempt
	for shard := range int16(4) {
		for k := range 100 {
			sold = append(sold, at(shard, k))
		}
		b.sell(item.Counter(shard), epoch, sold[len(sold)-100:]...)
	}
	armed, readings := false, 0
	reader := b.through(func(cmd redis.Cmder) {
		if cmd.Name() != "hmget" {
			return
		}
		if readings++; armed {
			armed = false
			b.mustBring(b.close(sold[0].No))
			b.sell(item.Counter(0), epoch, at(0, 100))
		}
	})
	for k, want := range []int{2, 1, 2} { // at first the plan is not known
		armed, readings = k == 2, 0
		w, err := reader.Borrow(t.Context(), item.Counter(2), 4, 1)
		require.Equal(t, "nothing is left", fmt.Sprint(w.Remaining, err), "0 <nil>")
		require.Equal(t, "readings", readings, want)
	}
	b.proven()
}
