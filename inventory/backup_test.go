package inventory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/require"
)

// errAborted ends a transaction whose process dies.
var errAborted = errors.New("aborted")

// toBackup moves units from the sale to the backup in a transaction that ends with
// end.
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
	if !errors.Is(err, end) {
		b.t.Fatal(err)
	}
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

func (b *bundle) apply(item Item) {
	b.t.Helper()
	require.NoError(b.t, b.Apply(b.t.Context(), item.ID))
}

// Only units that no shopper holds leave the sale: those granted in Redis stay,
// although Postgres does not have their orders yet.
func TestToBackupTakesWhatIsLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 5)
	n.UserLimit = 3
	item, epoch := b.loaded(n)
	granted := Attempt{User: 1, No: ids.NewFor(1), Quantity: 3}
	b.reserve(item, epoch, granted)
	mustBe(t, "moved", b.toBackup(item, 4, nil), 2)
	mustBe(t, "to the next", only(t, b.reserve(item, epoch, one(2))).Verdict, AllHeld)
	b.apply(item)
	b.mustAgree("after the move", item)
	b.write(item, epoch, granted) // Postgres has its units
	mustBe(t, "moved again", b.toBackup(item, 4, nil), 0)
	mustBe(t, "back on sale", b.fromBackup(item, 9), 2)
	b.apply(item)
	mustBe(t, "to the next", only(t, b.reserve(item, epoch, one(3))).Verdict, Granted)
	b.mustAgree("in the end", item)
}

// While an item on sale does not decide, units stay where they are; before the
// opening Postgres decides alone.
func TestToBackupWithoutRedis(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := b.create(onSale(1, 5))
	err := pg.InTx(t.Context(), b.db, func(tx pgx.Tx) error {
		_, err := b.ToBackup(t.Context(), tx, item.ID, 1)
		return err
	})
	mustFail(t, err, ErrFenced)
	n := onSale(2, 5)
	n.OpensAt = time.Now().Add(time.Hour / 2)
	early := b.create(n)
	mustBe(t, "before the opening", b.toBackup(early, 9, nil), 5)
	b.load(early)
	b.mustAgree("loaded after it", early)
}

// A process dies between Redis and Postgres: the units return by a comparison, by
// another change, and by the look at the sums each second.
func TestToBackupRolledBack(t *testing.T) {
	t.Parallel()
	for how, repair := range map[string]func(*bundle, Item) error{
		"comparison": func(b *bundle, item Item) error {
			_, _, err := b.compareOrders(t.Context(), item, 0)
			return err
		},
		"change": func(b *bundle, item Item) error {
			b.inTx(func(tx pgx.Tx) error { return b.Change(t.Context(), tx, item.ID, Change{Paused: new(false)}) })
			return b.Apply(t.Context(), item.ID)
		},
		"look": func(b *bundle, _ Item) error {
			b.differsFor = 0
			found, err := b.glance(t.Context(), map[int64]time.Time{})
			mustBe(t, "findings", len(found), 0)
			return err
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, _ := b.loaded(onSale(1, 5))
			mustBe(t, "taken in Redis", b.toBackup(item, 3, errAborted), 3)
			mustBe(t, "left", b.state(item).Remaining, 2)
			b.mustAgree("meanwhile", item)
			if found := b.reconcileNow(false); len(found) != 1 || found[0] != "withdrawn "+repairPossible {
				t.Errorf("reconcile finds %v", found)
			}
			require.NoError(t, repair(b, item))
			mustBe(t, "back", b.state(item).Remaining, 5)
			b.mustBeClean()
		})
	}
}
