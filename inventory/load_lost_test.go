package inventory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"stampede/inventory/load"
	"stampede/inventory/lua"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// heldAndGone is an item with a written order and a closed one, so that a Load has entries for each of its keys.
func (b *bundle) heldAndGone() (item Item, kept Attempt) {
	b.t.Helper()
	n := onSale(1, 3)
	n.PerActivity = true
	item, epoch := b.loaded(n)
	kept, closed := one(1), one(2)
	b.sell(item, epoch, kept, closed)
	b.mustBring(b.close(closed.No))
	return item, kept
}

// mustNotBeOpen requires that the item needs a Load.
func (b *bundle) mustNotBeOpen(item Item) {
	b.t.Helper()
	ready, err := b.Ready(b.t.Context(), item)
	require.Equal(b.t, "ready after a Load that lost keys", fmt.Sprint(ready, err), "false <nil>")
}

// mustHold requires that a Load repaired the loss.
func (b *bundle) mustHold(item Item, a Attempt) {
	b.t.Helper()
	require.Equal(b.t, "holder", only(b.t, b.reserve(item, b.state(item).Epoch, a)).Verdict, Repeated)
	b.mustBeClean()
}

// A promoted replica may lack the last writes to the old master.
func TestFailoverInsideALoadStartsItOver(t *testing.T) {
	t.Parallel()
	for what, lost := range map[string]func(Item, int64) []string{
		"everything": func(i Item, e int64) []string { return append(i.EpochKeys(e), i.StateKey(), i.BuyersKey()) },
		"holders":    func(i Item, e int64) []string { return []string{i.UsersKey(e)} },
		"tombstones": func(i Item, e int64) []string { return []string{i.TombstonesKey(e)} },
		"buyers":     func(i Item, _ int64) []string { return []string{i.BuyersKey()} },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, kept := b.heldAndGone()
			epoch := b.state(item).Epoch // in whose keys a Load works
			promoted := redistest.Start(t).Client
			b.at("written", func() error {
				missing := lost(item, epoch)
				for _, key := range b.rdb.Keys(t.Context(), "*").Val() {
					if slices.Contains(missing, key) {
						continue
					}
					dump, err := b.rdb.Dump(t.Context(), key).Result()
					if err != nil {
						return err
					}
					if err := promoted.Restore(t.Context(), key, 0, dump).Err(); err != nil {
						return err
					}
				}
				b.store.Redis = promoted
				return nil
			})
			require.ErrorIs(t, b.Load(t.Context(), item.ID), load.ErrKeysLost)
			b.mustNotBeOpen(item)
			b.store.Failpoint = nil
			b.load(item)
			b.mustHold(item, kept)
		})
	}
}

// A Load that finds no state frees the keys of Postgres's epoch, which may be those of a sleeping Load.
func TestSleepingLoadWithoutStateLosesItsKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, kept := b.heldAndGone()
	other := setupOn(t, b.db, b.rdb)
	other.at("fenced", crash)
	b.at("written", func() error {
		require.NoError(t, b.rdb.Unlink(t.Context(), item.StateKey()).Err())
		require.ErrorIs(t, b.afterExpiry(other.Service, item), errCrash)
		return nil
	})
	require.ErrorIs(t, b.Load(t.Context(), item.ID), load.ErrKeysLost)
	b.mustNotBeOpen(item)
	b.store.Failpoint = nil
	b.load(item)
	b.mustHold(item, kept)
}

// sendsTwice repeats scripts like a client that lost the first answer.
type sendsTwice struct {
	hashes   []string
	repeated int
}

func (h *sendsTwice) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *sendsTwice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *sendsTwice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && args[0] == "evalsha" && slices.Contains(h.hashes, args[1].(string)) {
			h.repeated++
			if err := next(ctx, cmd); err != nil {
				return err
			}
		}
		return next(ctx, cmd)
	}
}

func TestLoadWhoseAnswersAreLostSucceeds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, kept := b.heldAndGone()
	rel := b.state(item).Rel
	twice := &sendsTwice{hashes: []string{lua.Fence.Hash(), lua.Load.Hash()}}
	b.rdb.AddHook(twice)
	b.load(item)
	require.Equal(t, "repeated", twice.repeated, 2)
	require.Equal(t, "rel", b.state(item).Rel, rel+1)
	b.mustHold(item, kept)
}

// heldPastTheEnd is an item whose Load has read an order as live when the sale ends and the order is closed.
func (b *bundle) heldPastTheEnd() (Item, func() orderevent.Order) {
	b.t.Helper()
	item, _ := b.loaded(onSale(1, 3))
	no := b.written(item, 1)
	return item, func() orderevent.Order {
		if _, err := b.db.Exec(b.t.Context(), `UPDATE inventory.stock SET closes_at = clock_timestamp()`); err != nil {
			b.t.Error(err)
		}
		return b.close(no)
	}
}

// A Load that was under way when the sale ended still writes the marks that it read: the return of such an order
// waits for it.
func TestReturnsWaitForTheLastLoad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, end := b.heldPastTheEnd()
	var closed orderevent.Order
	b.at("written", func() error {
		closed = end()
		require.ErrorIs(t, b.bring(item, closed), ErrFenced)
		return nil
	})
	b.load(item)
	b.mustBring(closed)
	require.Equal(t, "remaining", b.state(item).Remaining, 3)
	b.mustBeClean()
}

// afterFirst runs a function after a script's first answer.
type afterFirst struct {
	sendsTwice
	then sync.Once
	do   func()
}

func (h *afterFirst) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); len(args) > 1 && args[0] == "evalsha" && slices.Contains(h.hashes, args[1].(string)) {
			h.then.Do(h.do)
		}
		return err
	}
}

// The last Load may end between Redis's answer, that it is under way, and Postgres's, that it is not.
func TestReturnsMeetTheEndOfTheLastLoad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, end := b.heldPastTheEnd()
	b.mustBring(b.close(b.written(item, 2))) // now Redis has the script cached
	counted, asked, ended := make(chan orderevent.Order), make(chan struct{}), make(chan error, 1)
	b.at("written", func() error {
		counted <- end()
		<-asked
		return nil
	})
	go func() { ended <- b.Load(t.Context(), item.ID) }()
	closed := <-counted
	b.rdb.AddHook(&afterFirst{sendsTwice: sendsTwice{hashes: []string{lua.Release.Hash()}}, do: func() {
		close(asked)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}})
	b.mustBring(closed)
	require.Equal(t, "remaining", b.state(item).Remaining, 3)
	b.mustBeClean()
}

// written is a user's order for an item.
func (b *bundle) written(item Item, user int64) ids.ID {
	b.t.Helper()
	a, epoch := one(user), b.state(item).Epoch
	b.sell(item, epoch, a)
	return a.No
}
