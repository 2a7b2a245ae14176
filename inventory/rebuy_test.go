package inventory

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
)

// Without rebuy a closed order keeps blocking its user, through any number of
// Loads, and is not a hold: another user can get its unit.
func TestWithoutRebuyClosedOrderBlocksUser(t *testing.T) {
	t.Parallel()
	for name, perActivity := range map[string]bool{"item": false, "activity": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := onSale(1, 2)
			n.Rebuy, n.PerActivity = false, perActivity
			item, epoch := b.loaded(n)
			n.ID = 2
			other, _ := b.loaded(n)

			closed, refused := one(1), one(2)
			b.reserve(item, epoch, closed, refused)
			b.write(item, epoch, closed)
			o := b.close(closed.No)
			b.mustRelease(o)
			b.mustRelease(o)
			b.mustRelease(b.orders.put(item, refused, epoch, orderevent.StatusRefused))

			st := b.state(item)
			mustBe(t, "units, each given back once", fmt.Sprint(st.Remaining, st.Committed, st.Rel), "2 0 2")
			check := func(what string) {
				t.Helper()
				epoch, otherEpoch := b.state(item).Epoch, b.state(other).Epoch
				d := b.reserve(item, epoch, one(1), closed)
				mustBe(t, what+": again", d.Results[0], Result{Verdict: AlreadyBought, Other: closed.No})
				mustBe(t, what+": the closed number", d.Results[1].Verdict, Finished)
				want := Granted
				if perActivity {
					want = AlreadyBought
				}
				a := one(1)
				mustBe(t, what+": another item", only(t, b.reserve(other, otherEpoch, a)).Verdict, want)
				if want == Granted {
					b.mustRelease(b.orders.put(other, a, otherEpoch, orderevent.StatusRefused))
				}
				if _, _, _, _, ok, err := b.Hold(t.Context(), item, 1); ok || err != nil {
					t.Errorf("%s: a closed order counts as a hold: %v", what, err)
				}
				if users, err := b.Users(t.Context(), item, epoch, 10); err != nil || len(users) != 0 {
					t.Errorf("%s: holders %v, error %v", what, users, err)
				}
				b.mustBeClean()
			}
			check("after the release")
			b.load(item)
			check("after a Load")
			b.rdb.FlushDB(t.Context())
			b.load(item)
			b.load(other)
			check("after a loss of Redis")
			b.mustCommit(o) // a stray event
			b.mustRelease(o)
			st = b.state(item)
			mustBe(t, "units in the end", fmt.Sprint(st.Remaining, st.Committed), "2 0")

			// A user whom the system refused may try again, and gets the closed unit.
			d := b.reserve(item, st.Epoch, one(2), one(3))
			mustBe(t, "after a refusal", d.Results[0].Verdict, Granted)
			mustBe(t, "the last unit", d.Results[1].Verdict, Granted)
			b.mustBeClean()
		})
	}
}

// With rebuy a closed order leaves nothing.
func TestWithRebuyAClosedOrderFreesItsUser(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 2)
	n.PerActivity = true
	item, epoch := b.loaded(n)
	a := one(1)
	b.reserve(item, epoch, a)
	b.write(item, epoch, a)
	b.mustRelease(b.close(a.No))
	b.load(item)
	mustBe(t, "again", only(t, b.reserve(item, b.state(item).Epoch, one(1))).Verdict, Granted)
}

// Load finds an order that was closed before its release arrived.
func TestLoadFindsClosedOrdersBeforeTheirRelease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 2)
	n.Rebuy = false
	item, epoch := b.loaded(n)
	a := one(1)
	b.reserve(item, epoch, a)
	b.write(item, epoch, a)
	o := b.close(a.No)
	b.load(item)
	epoch = b.state(item).Epoch
	mustBe(t, "before the release", only(t, b.reserve(item, epoch, one(1))).Other, a.No)
	b.mustRelease(o)
	mustBe(t, "after the release", only(t, b.reserve(item, epoch, one(1))).Other, a.No)
	mustBe(t, "remaining", b.state(item).Remaining, 2)
	b.mustBeClean()
}

func TestRebuyCanBeChanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 2))
	b.inTx(func(tx pgx.Tx) error { return b.Change(t.Context(), tx, item.ID, Change{Rebuy: new(false)}) })
	if err := b.Apply(t.Context(), item.ID); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "state", b.state(item).Rebuy, false)
	a := one(1)
	b.reserve(item, epoch, a)
	b.write(item, epoch, a)
	b.mustRelease(b.close(a.No))
	mustBe(t, "again", only(t, b.reserve(item, epoch, one(1))).Verdict, AlreadyBought)
}

// After a restart of Redis a hold without an order row proves nothing: the
// grant may never have been published, and the next Load drops it then.
func TestHoldIsUnknownAfterRedisRestart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 5))
	written, open := one(1), one(2)
	b.reserve(item, epoch, written, open)
	b.write(item, epoch, written)
	b.otherRun(item)
	if _, _, _, _, _, err := b.Hold(t.Context(), item, open.User); err == nil {
		t.Error("a definite answer about a grant that may never have been published")
	} else {
		mustFail(t, err, ErrFenced)
	}
	no, _, seq, _, ok, err := b.Hold(t.Context(), item, written.User)
	if err != nil || !ok || no != written.No || seq != 0 {
		t.Errorf("a hold with an order row: %v %v %d %v", no, ok, seq, err)
	}
}
