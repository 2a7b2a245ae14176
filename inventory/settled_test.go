package inventory

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// end lets the items' sales end as if that were long ago: an operator's change, applied to Redis.
func (b *bundle) end(items ...Item) {
	b.t.Helper()
	opens, closes := time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
	for _, item := range items {
		b.inTx(func(tx pgx.Tx) error {
			return b.Change(b.t.Context(), tx, item.ID, Change{OpensAt: &opens, ClosesAt: &closes})
		})
		b.apply(item)
	}
}

func (b *bundle) settles(want int) {
	b.t.Helper()
	n, err := b.Settle(b.t.Context())
	require.NoError(b.t, err)
	require.Equal(b.t, "items settled", n, want)
}

func (b *bundle) keys() int {
	b.t.Helper()
	keys, err := b.rdb.Keys(b.t.Context(), "{g:*").Result()
	require.NoError(b.t, err)
	return len(keys)
}

// Everything that keeps an ended item in Redis, one after the other; then its keys are removed, and with the last
// item of the activity its buyers. Later events only reach Postgres.
func TestEndedItemIsSettledWhenNothingIsUnderWay(t *testing.T) {
	t.Parallel()
	s := midSale(t)
	s.settles(0) // the sale is not over
	s.end(s.item)
	s.settles(0) // a grant is in flight, two orders wait for their payment
	s.write(s.item, s.epoch, s.inFlight)
	s.settles(0)
	closing := s.close(s.closed.No)
	s.pay(s.unpaid.No)
	unpaid := s.close(s.inFlight.No)
	s.settles(0) // releases and a commit were missing; they are repaired
	s.mustBeClean()
	s.mustBring(closing) // the events come late
	s.mustBring(unpaid)
	s.mustBring(s.orders.set(s.unpaid.No, orderevent.StatusPaid))
	s.bus.done = func(uint64) bool { return false }
	s.settles(0) // the stream has messages of the item
	s.bus.done = nil
	s.mustBeClean()
	before, err := s.Books(t.Context())
	require.NoError(t, err)
	s.settles(1)
	require.Equal(t, "keys left", s.keys(), 0)
	s.settles(0) // once

	// The books are now Postgres's alone, and right.
	s.mustBeClean()
	after, err := s.Books(t.Context())
	require.NoError(t, err)
	require.Equal(t, "books", fmt.Sprint(after[0].Loaded, after[0].Sold, after[0].Available), fmt.Sprint(false, before[0].Sold, before[0].Available))
	_, _, ok, err := s.Queued(t.Context(), 9, ids.NewFor(9))
	require.Equal(t, "an unknown number", fmt.Sprint(ok, err), "false <nil>")
	// Late returns and payments change nothing in Redis and restore no keys.
	s.mustBring(closing)
	s.mustBring(s.close(s.paid.No))
	s.mustBring(s.orders.set(s.unpaid.No, orderevent.StatusPaid))
	require.NoError(t, s.Apply(t.Context(), s.item.ID))
	require.Equal(t, "keys after late returns", s.keys(), 0)
	s.mustBeClean()
	rows, err := s.Books(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the late return is in Postgres", rows[0].Available, before[0].Available+1)
	// However many settled items a shop has, its books read nothing of them from Redis.
	gone := redis.NewClient(&redis.Options{})
	require.NoError(t, gone.Close())
	s.store.Redis = gone
	again, err := s.Books(t.Context())
	s.store.Redis = s.rdb
	require.NoError(t, err)
	require.Equal(t, "books without Redis", again, rows)

	// Loaded again manually, it is settled again.
	s.load(s.item)
	require.Equal(t, "loaded again", s.keys() > 0, true)
	s.settles(1)
	require.Equal(t, "keys left", s.keys(), 0)
}

// The activity's other items must know a buyer of one until the last of them has ended.
func TestBuyersStayUntilTheActivityHasEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := onSale(1, 5), onSale(2, 5)
	first.PerActivity, second.PerActivity = true, true
	i1, e1 := b.loaded(first)
	i2, e2 := b.loaded(second)
	a := one(1)
	b.sell(i1, e1, a)
	b.mustBring(b.pay(a.No))
	b.end(i1)
	b.settles(0)
	require.Equal(t, "the other item", only(t, b.reserve(i2, e2, one(1))).Verdict, AlreadyBought)
	b.end(i2)
	b.settles(2)
	require.Equal(t, "keys left", b.keys(), 0)
}

// A Redis that was restarted after the end decides nothing, and nothing loads an ended item; its keys are removed
// nevertheless, unless a hold waits in them.
func TestItemFromOlderRedisRunIsSettled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 5))
	lost, _ := b.loaded(onSale(2, 5))
	never := b.create(onSale(3, 5))
	a := one(1)
	b.reserve(item, epoch, a)
	b.end(item, lost, never)
	require.NoError(t, b.rdb.HSet(t.Context(), item.StateKey(), "run_id", "another").Err())
	require.NoError(t, b.rdb.Unlink(t.Context(), lost.StateKey()).Err())
	b.settles(2)
	require.Equal(t, "the hold is still there", b.keys(), 3) // state, users, holds
	b.write(item, epoch, a)
	b.settles(0) // not paid
	b.pay(a.No)
	b.settles(1)
	require.Equal(t, "keys left", b.keys(), 0)
	b.mustBeClean()
}

// One of two instances settles, and not while another one loads the item.
func TestOneInstanceSettles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 5))
	b.end(item)
	loading := make(chan struct{})
	release := make(chan struct{})
	held := make(chan error, 1)
	go func() {
		held <- b.UnderLease(t.Context(), item.ID, func(context.Context, int64) error {
			close(loading)
			<-release
			return nil
		})
	}()
	<-loading
	b.settles(0)
	close(release)
	require.NoError(t, <-held)
	for _, s := range []*Service{b.Service, b.instance()} {
		for _, w := range s.Workers() {
			pgtest.Work(t, w.Run)
		}
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.keys() == 0 }, "the item is settled")
}
