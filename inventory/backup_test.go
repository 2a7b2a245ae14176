package inventory

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/compare"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// errAborted ends a transaction whose process dies.
var errAborted = errors.New("aborted")

// toBackup moves units from the sale to the backup in a transaction that ends with end.
func (b *bundle) toBackup(item Item, units int32, end error) (moved int32) {
	b.t.Helper()
	return b.moveOff(b.ToBackup, item, units, end)
}

// moveOff takes units off the sale in a transaction that ends with end.
func (b *bundle) moveOff(how func(context.Context, pgx.Tx, int64, int32) (int32, error), item Item, units int32, end error) (moved int32) {
	b.t.Helper()
	err := pg.InTx(b.t.Context(), b.db, func(tx pgx.Tx) (err error) {
		if moved, err = how(b.t.Context(), tx, item.ID, units); err != nil {
			return err
		}
		return end
	})
	require.ErrorIs(b.t, err, end)
	return moved
}

func (b *bundle) fromBackup(item Item, units int32) (moved int32) {
	b.t.Helper()
	b.inTx(func(tx pgx.Tx) (err error) {
		moved, err = b.FromBackup(b.t.Context(), tx, item.ID, units)
		return err
	})
	return moved
}

// change has an operator change an item.
func (b *bundle) change(item Item, c Change) {
	b.t.Helper()
	b.inTx(func(tx pgx.Tx) error { return b.Change(b.t.Context(), tx, item.ID, c) })
	b.apply(item)
}

func (b *bundle) apply(item Item) {
	b.t.Helper()
	require.NoError(b.t, b.Apply(b.t.Context(), item.ID))
}

// Only units that no shopper holds leave the sale: those granted in Redis stay, although Postgres does not have their
// orders yet.
func TestToBackupTakesWhatIsLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 5)
	n.UserLimit = 3
	item, epoch := b.loaded(n)
	granted := Attempt{User: 1, No: ids.NewFor(1), Quantity: 3}
	b.reserve(item, epoch, granted)
	require.Equal(t, "moved", b.toBackup(item, 4, nil), 2)
	require.Equal(t, "to the next", only(t, b.reserve(item, epoch, one(2))).Verdict, AllHeld)
	b.apply(item)
	b.mustAgree("after the move", item)
	b.write(item, epoch, granted) // Postgres has its units
	require.Equal(t, "moved again", b.toBackup(item, 4, nil), 0)
	require.Equal(t, "back on sale", b.fromBackup(item, 9), 2)
	b.apply(item)
	require.Equal(t, "to the next", only(t, b.reserve(item, epoch, one(3))).Verdict, Granted)
	b.mustAgree("in the end", item)
}

// While an item on sale does not decide, units stay where they are; before the opening Postgres decides alone.
func TestToBackupWithoutRedis(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := b.create(onSale(1, 5))
	err := pg.InTx(t.Context(), b.db, func(tx pgx.Tx) error {
		_, err := b.ToBackup(t.Context(), tx, item.ID, 1)
		return err
	})
	require.ErrorIs(t, err, ErrFenced)
	n := onSale(2, 5)
	n.OpensAt = time.Now().Add(time.Hour / 2)
	early := b.create(n)
	require.Equal(t, "before the opening", b.toBackup(early, 9, nil), 5)
	b.load(early)
	b.mustAgree("loaded after it", early)
}

// A process dies between Redis and Postgres: the units return by a comparison, by another change, and by the look at
// the sums each second.
func TestToBackupRolledBack(t *testing.T) {
	t.Parallel()
	for how, repair := range map[string]func(*bundle, Item) error{
		"comparison": func(b *bundle, item Item) error {
			_, _, err := b.CompareOrders(t.Context(), item, 0)
			return err
		},
		"change": func(b *bundle, item Item) error {
			b.change(item, Change{Paused: new(false)})
			return nil
		},
		"look": func(b *bundle, _ Item) error {
			b.store.DiffersFor = 0
			found, err := b.BooksProbe().Look(t.Context())
			require.Equal(t, "findings", len(found), 0)
			return err
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, _ := b.loaded(onSale(1, 5))
			require.Equal(t, "taken in Redis", b.toBackup(item, 3, errAborted), 3)
			require.Equal(t, "left", b.state(item).Remaining, 2)
			b.mustAgree("meanwhile", item)
			require.Equal(t, "found", b.reconcileNow(false), []string{"withdrawn " + compare.RepairPossible})
			require.NoError(t, repair(b, item))
			require.Equal(t, "back", b.state(item).Remaining, 5)
			b.mustBeClean()
		})
	}
}

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
		return end(b.t.Context(), tx, []Movement{{Key: Key{ItemID: o.ItemID, Shard: o.Shard}, Quantity: o.Quantity}})
	})
	return o
}

// In whatever way Redis learns of refunded orders, their units are on sale again or written off, and both counts
// agree.
func TestRefundedUnitsReachRedis(t *testing.T) {
	t.Parallel()
	deliver := func(b *bundle, orders ...orderevent.Order) {
		b.t.Helper()
		for _, o := range orders {
			require.NoError(b.t, b.tell(orderevent.SubjectRefunded, o))
		}
	}
	for name, learn := range map[string]func(b *bundle, item Item, refunded ...orderevent.Order){
		"by their events": func(b *bundle, _ Item, refunded ...orderevent.Order) { deliver(b, refunded...) },
		"by their events, twice": func(b *bundle, _ Item, refunded ...orderevent.Order) {
			deliver(b, refunded...)
			deliver(b, refunded...)
		},
		"by a comparison": func(b *bundle, _ Item, _ ...orderevent.Order) {
			require.Equal(b.t, "compared", b.compareAll(b.Service), 1)
		},
		"by a Load":               func(b *bundle, item Item, _ ...orderevent.Order) { b.load(item) },
		"by a Load before events": func(b *bundle, item Item, refunded ...orderevent.Order) { b.load(item); deliver(b, refunded...) },
		"by a Load of an empty Redis": func(b *bundle, item Item, _ ...orderevent.Order) {
			b.rdb.FlushDB(b.t.Context())
			b.load(item)
		},
		"after an operator's change": func(b *bundle, item Item, refunded ...orderevent.Order) {
			b.change(item, Change{UserLimit: new(int32(3))})
			require.Equal(b.t, "while the release is under way", only(b.t, b.reserve(item, b.state(item).Epoch, one(8))).Verdict, SoldOut)
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
					b.sell(item, epoch, a)
					b.mustBring(b.pay(a.No))
				}
				pgtest.Work(t, b.Run)
				require.Equal(t, "all paid", only(t, b.reserve(item, epoch, one(9))).Verdict, SoldOut)
				learn(b, item, b.refund(writtenOff.No, true), b.refund(returned.No, false))
				st := b.state(item)
				require.Equal(t, "remaining, committed, total", fmt.Sprint(st.Remaining, st.Committed, st.Total), "1 2 3")
				b.mustBeClean()
				row := b.bookRowOf(item)
				require.Equal(t, "books", fmt.Sprint(row.Total, row.Available, row.Sold, row.WrittenOff, row.Difference), "7 1 2 4 0")

				again, blocked := only(t, b.reserve(item, st.Epoch, one(3))), AlreadyBought
				if rebuy {
					blocked = Granted
				}
				require.Equal(t, "its shopper again", again.Verdict, blocked)
				if rebuy {
					return
				}
				require.Equal(t, "the unit that is back", only(t, b.reserve(item, st.Epoch, one(5))).Verdict, Granted)
				require.Equal(t, "no other", only(t, b.reserve(item, st.Epoch, one(6))).Verdict, AllHeld)
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
		b.sell(item, epoch, a)
		b.mustBring(b.pay(a.No))
	}
	b.end(item)
	b.settles(1)
	require.Equal(t, "keys", b.keys(), 0)
	row := b.bookRowOf(item) // at rest, so it stays in memory
	require.Equal(t, "books", fmt.Sprint(row.Available, row.Sold, row.WrittenOff), "3 2 0")
	pgtest.Work(t, b.Run)
	for _, o := range []orderevent.Order{b.refund(returned.No, false), b.refund(writtenOff.No, true)} {
		require.NoError(t, b.tell(orderevent.SubjectRefunded, o))
	}
	row = b.bookRowOf(item)
	require.Equal(t, "books after the refunds", fmt.Sprint(row.Available, row.Sold, row.WrittenOff, row.Difference), "4 0 1 0")
	require.Equal(t, "keys after the refunds", b.keys(), 0)
	b.mustBeClean()
}

// The refund of an order that late money had taken up again may reach Redis before that does. A comparison ends what
// is left.
func TestRefundKnownBeforeTheRetake(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pgtest.Work(t, b.Run)
	for id, writeOff := range map[int64]bool{1: false, 2: true} {
		n := onSale(id, 5)
		n.Backup = 2
		item, epoch := b.loaded(n)
		late := one(1)
		b.sell(item, epoch, late)
		b.mustBring(b.close(late.No))
		paid := b.retake(late.No)
		refunded := b.refund(late.No, writeOff)
		require.NoError(t, b.tell(orderevent.SubjectRefunded, refunded))
		b.mustAgree("after the refund", item)
		require.NoError(t, b.tell(orderevent.SubjectPaid, paid))
		b.mustAgree("after the payment", item)
		b.compareAll(b.Service)
		st, want := b.state(item), "6 0 6"
		if writeOff {
			want = "5 0 5"
		}
		require.Equal(t, "remaining, committed, total", fmt.Sprint(st.Remaining, st.Committed, st.Total), want)
	}
	b.mustBeClean()
}
