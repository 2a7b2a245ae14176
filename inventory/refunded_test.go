package inventory

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// refund refunds an order in Postgres, as order does; the event comes separately.
func (b *bundle) refund(no ids.ID, writeOff bool) orderevent.Order {
	b.t.Helper()
	var o orderevent.Order
	b.inTx(func(tx pgx.Tx) error {
		o = b.orders.set(no, orderevent.StatusRefunded)
		end := b.Return
		if writeOff {
			end = b.WriteOff
		}
		return end(b.t.Context(), tx, []Movement{{Key: Key{o.ItemID, o.Shard}, Quantity: o.Quantity}})
	})
	return o
}

// In whatever way Redis learns of refunded orders, their units are on sale again or
// written off, and both counts agree.
func TestRefundedUnitsReachRedis(t *testing.T) {
	t.Parallel()
	deliver := func(b *bundle, orders ...orderevent.Order) {
		b.t.Helper()
		for _, o := range orders {
			require.NoError(b.t, errors.Join(b.deliver(orderevent.SubjectRefunded, o), b.AwaitKeepers(b.t.Context())))
		}
	}
	for name, learn := range map[string]func(b *bundle, item Item, refunded ...orderevent.Order){
		"by their events": func(b *bundle, _ Item, refunded ...orderevent.Order) { deliver(b, refunded...) },
		"by their events, twice": func(b *bundle, _ Item, refunded ...orderevent.Order) {
			deliver(b, refunded...)
			deliver(b, refunded...)
		},
		"by a comparison":         func(b *bundle, _ Item, _ ...orderevent.Order) { mustBe(b.t, "compared", b.compareAll(b.Service), 1) },
		"by a Load":               func(b *bundle, item Item, _ ...orderevent.Order) { b.load(item) },
		"by a Load before events": func(b *bundle, item Item, refunded ...orderevent.Order) { b.load(item); deliver(b, refunded...) },
		"by a Load of an empty Redis": func(b *bundle, item Item, _ ...orderevent.Order) {
			b.rdb.FlushDB(b.t.Context())
			b.load(item)
		},
		"after an operator's change": func(b *bundle, item Item, refunded ...orderevent.Order) {
			b.inTx(func(tx pgx.Tx) error { return b.Change(b.t.Context(), tx, item.ID, Change{UserLimit: new(int32(3))}) })
			require.NoError(b.t, b.Apply(b.t.Context(), item.ID))
			mustBe(b.t, "while the release is under way", only(b.t, b.reserve(item, b.state(item).Epoch, one(8))).Verdict, SoldOut)
			deliver(b, refunded...)
		},
		"repaired": func(b *bundle, _ Item, _ ...orderevent.Order) { b.reconcileNow(true) },
	} {
		for _, rebuy := range []bool{false, true} {
			if rebuy && name != "by a comparison" {
				continue // a mark that goes is simpler than one that stays
			}
			t.Run(fmt.Sprintf("%s, rebuy %v", name, rebuy), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				n := onSale(1, 7)
				n.UserLimit, n.Rebuy, n.PerActivity = 4, rebuy, true
				item, epoch := b.loaded(n)
				kept, returned, writtenOff := one(1), one(2), Attempt{User: 3, No: ids.NewFor(3), Quantity: 4}
				last := one(4)
				for _, a := range []Attempt{kept, returned, writtenOff, last} {
					b.reserve(item, epoch, a)
					b.write(item, epoch, a)
					b.mustCommit(b.pay(a.No))
				}
				b.work(b.runKeepers)
				mustBe(t, "all paid", only(t, b.reserve(item, epoch, one(9))).Verdict, SoldOut)
				learn(b, item, b.refund(writtenOff.No, true), b.refund(returned.No, false))
				st := b.state(item)
				mustBe(t, "remaining, committed, total", fmt.Sprint(st.Remaining, st.Committed, st.Total), "1 2 3")
				b.mustBeClean()
				row := b.bookRowOf(item)
				mustBe(t, "books", fmt.Sprint(row.Total, row.Available, row.Sold, row.WrittenOff, row.Difference), "7 1 2 4 0")

				again, blocked := only(t, b.reserve(item, st.Epoch, one(3))), AlreadyBought
				if rebuy {
					blocked = Granted
				}
				mustBe(t, "its shopper again", again.Verdict, blocked)
				if rebuy {
					return
				}
				mustBe(t, "the unit that is back", only(t, b.reserve(item, st.Epoch, one(5))).Verdict, Granted)
				mustBe(t, "no other", only(t, b.reserve(item, st.Epoch, one(6))).Verdict, AllHeld)
			})
		}
	}
}

// Of a settled item only Postgres has the units.
func TestRefundAfterTheSettlementChangesPostgresAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 5))
	returned, writtenOff := one(1), one(2)
	for _, a := range []Attempt{returned, writtenOff} {
		b.reserve(item, epoch, a)
		b.write(item, epoch, a)
		b.mustCommit(b.pay(a.No))
	}
	b.end(item)
	b.settles(1)
	mustBe(t, "keys", b.keys(), 0)
	row := b.bookRowOf(item) // at rest, so it stays in memory
	mustBe(t, "books", fmt.Sprint(row.Available, row.Sold, row.WrittenOff), "3 2 0")
	b.work(b.runKeepers)
	for _, o := range []orderevent.Order{b.refund(returned.No, false), b.refund(writtenOff.No, true)} {
		require.NoError(t, errors.Join(b.deliver(orderevent.SubjectRefunded, o), b.AwaitKeepers(t.Context())))
	}
	row = b.bookRowOf(item)
	mustBe(t, "books after the refunds", fmt.Sprint(row.Available, row.Sold, row.WrittenOff, row.Difference), "4 0 1 0")
	mustBe(t, "keys after the refunds", b.keys(), 0)
	b.mustBeClean()
}

// The refund of an order that late money had taken up again may reach Redis before
// that does. A comparison ends what is left.
func TestRefundKnownBeforeTheRetake(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.work(b.runKeepers)
	for id, writeOff := range map[int64]bool{1: false, 2: true} {
		n := onSale(id, 5)
		n.Backup = 2
		item, epoch := b.loaded(n)
		late := one(1)
		b.reserve(item, epoch, late)
		b.write(item, epoch, late)
		b.mustRelease(b.close(late.No))
		paid := b.retake(late.No)
		refunded := b.refund(late.No, writeOff)
		for _, step := range []func() error{
			func() error { return b.deliver(orderevent.SubjectRefunded, refunded) },
			func() error { return b.deliver(orderevent.SubjectPaid, paid) },
		} {
			require.NoError(t, errors.Join(step(), b.AwaitKeepers(t.Context())))
			b.mustAgree("after an event", item)
		}
		b.compareAll(b.Service)
		st, want := b.state(item), "6 0 6"
		if writeOff {
			want = "5 0 5"
		}
		mustBe(t, "remaining, committed, total", fmt.Sprint(st.Remaining, st.Committed, st.Total), want)
	}
	b.mustBeClean()
}
