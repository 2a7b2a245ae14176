package inventory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/modeltest"
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
	if err := b.Apply(b.t.Context(), item.ID); err != nil {
		b.t.Fatal(err)
	}
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
			if err := repair(b, item); err != nil {
				t.Fatal(err)
			}
			mustBe(t, "back", b.state(item).Remaining, 5)
			b.mustBeClean()
		})
	}
}

// TestBackupNeverOversells runs moves between sale and backup and off the sale, rolled back ones, late payments, sales and
// Loads in any order. After each step both counts agree, apart from changes that have
// not reached Redis yet, and Redis never has a unit that Postgres has not.
func TestBackupNeverOversells(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, failed := int64(0), false
	rapid.Check(t, func(rt *rapid.T) {
		if id++; id > int64(modeltest.Times(15, 1000)) && !failed {
			return // each case is a hundred round trips
		}
		defer func() { failed = failed || rt.Failed() }() // and is repeated to find a shorter one
		n := onSale(id, 6)
		n.Backup, n.UserLimit = 3, 2
		n.Rebuy = rapid.Bool().Draw(rt, "rebuy")
		item, _ := b.loaded(n)
		var granted, pending []Attempt
		var closed, events []orderevent.Order
		pick := func(n int) int {
			if n == 0 {
				rt.Skip("none")
			}
			return rapid.IntRange(0, n-1).Draw(rt, "which")
		}
		steps := map[string]func(*rapid.T){
			"grant": func(*rapid.T) {
				user := rapid.Int64Range(1, 5).Draw(rt, "user")
				a := Attempt{User: user, No: ids.NewFor(user), Quantity: rapid.Int32Range(1, 2).Draw(rt, "units")}
				if d := b.reserve(item, b.state(item).Epoch, a); len(d.Results) == 1 && d.Results[0].Verdict == Granted {
					granted = append(granted, a)
				}
			},
			"write": func(*rapid.T) {
				i := pick(len(granted))
				a := granted[i]
				granted = append(granted[:i:i], granted[i+1:]...)
				for _, o := range b.orders.live(item.ID) {
					if o.UserID == a.User { // the unique index
						events = append(events, b.orders.put(item, a, b.state(item).Epoch, orderevent.StatusRefused))
						return
					}
				}
				b.write(item, b.state(item).Epoch, a)
				pending = append(pending, a)
			},
			"close": func(*rapid.T) {
				i := pick(len(pending))
				o := b.close(pending[i].No)
				pending = append(pending[:i:i], pending[i+1:]...)
				closed, events = append(closed, o), append(events, o)
			},
			"late money": func(*rapid.T) {
				i := pick(len(closed))
				o := closed[i]
				closed = append(closed[:i:i], closed[i+1:]...)
				for _, l := range b.orders.live(item.ID) {
					if l.UserID == o.UserID {
						return
					}
				}
				if ok, paid := b.tryRetake(o.No); ok {
					events = append(events, paid)
				}
			},
			"event": func(*rapid.T) {
				i := pick(len(events))
				o := events[i]
				if rapid.Bool().Draw(rt, "once") {
					events = append(events[:i:i], events[i+1:]...)
				}
				if _, err := b.applyHints(b.t.Context(), item, hintsOf([]orderevent.Order{o})); err != nil {
					rt.Fatal(err)
				}
			},
			"to the backup": func(*rapid.T) {
				end := rapid.SampledFrom([]error{nil, nil, errAborted}).Draw(rt, "end")
				b.toBackup(item, rapid.Int32Range(1, 4).Draw(rt, "units"), end)
			},
			"off the sale": func(*rapid.T) {
				end := rapid.SampledFrom([]error{nil, nil, errAborted}).Draw(rt, "end")
				leave := rapid.SampledFrom([]func(context.Context, pgx.Tx, int64, int32) (int32, error){b.TakeOff, b.WriteOffFree}).Draw(rt, "how")
				b.moveOff(leave, item, rapid.Int32Range(1, 3).Draw(rt, "units"), end)
			},
			"from the backup": func(*rapid.T) { b.fromBackup(item, rapid.Int32Range(1, 4).Draw(rt, "units")) },
			"apply":           func(*rapid.T) { b.apply(item) },
			"compare": func(*rapid.T) {
				if _, found, err := b.compareOrders(b.t.Context(), item, 0); err != nil || len(found) > 0 {
					rt.Fatal(found, err)
				}
			},
			"load": func(*rapid.T) {
				if len(granted) == 0 { // else it waits for the writer
					b.load(item)
				}
			},
			"": func(*rapid.T) {
				c, err := b.readCut(b.t.Context(), item.ID)
				if err != nil {
					rt.Fatal(err)
				}
				row, found := c.sum(), c.oversold()
				behind := c.shards[0].state.Rev < c.stocks[0].Rev
				if len(found) > 0 || row.Difference < 0 || row.Difference != 0 && !behind {
					rt.Fatalf("%+v, %v", row, found)
				}
			},
		}
		rt.Repeat(steps)
		for _, a := range granted {
			events = append(events, b.orders.put(item, a, b.state(item).Epoch, orderevent.StatusRefused))
		}
		b.apply(item)
		for range 2 { // what waits for another number
			if _, _, err := b.compareOrders(b.t.Context(), item, 0); err != nil {
				rt.Fatal(err)
			}
		}
		c, err := b.readCut(b.t.Context(), item.ID)
		if err != nil {
			rt.Fatal(err)
		}
		if found := c.differences(); len(found) > 0 {
			rt.Fatalf("in the end: %v", found)
		}
	})
}
