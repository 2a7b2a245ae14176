package inventory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/inventoryevent"
	"stampede/order/orderevent"
	"stampede/platform/bus"
	"stampede/platform/ids"
)

func TestGates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := time.Now()
	for i, c := range []struct {
		name          string
		opens, closes time.Duration
		paused        bool
		want          Gate
	}{
		{"open", -time.Minute, time.Minute, false, Open},
		{"not started", time.Minute, time.Hour, false, NotStarted},
		{"not started and paused", time.Minute, time.Hour, true, NotStarted},
		{"ended", -time.Hour, -time.Minute, false, Ended},
		{"paused", -time.Minute, time.Minute, true, Paused},
	} {
		n := onSale(int64(i+1), 3)
		n.OpensAt, n.ClosesAt = now.Add(c.opens), now.Add(c.closes)
		item, epoch := b.loaded(n)
		b.inTx(func(tx pgx.Tx) error { return b.Change(t.Context(), tx, item.ID, Change{Paused: &c.paused}) })
		if err := b.Apply(t.Context(), item.ID); err != nil {
			t.Fatal(err)
		}
		d := b.reserve(item, epoch, one(1))
		mustBe(t, c.name, d.Gate, c.want)
		mustBe(t, c.name+": total", d.Total, 3)
		if c.want == NotStarted && (d.OpensIn <= 50*time.Second || d.OpensIn > time.Minute) {
			t.Errorf("%s: opens in %v", c.name, d.OpensIn)
		}
		if (c.want == Open) != (len(d.Results) == 1) {
			t.Errorf("%s: %d results", c.name, len(d.Results))
		}
	}
}

func TestFencedWithoutStateOrUnderAnotherEpoch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := b.create(onSale(1, 3))
	d := b.reserve(item, 1, one(1))
	mustBe(t, "gate without state", d.Gate, Fenced)
	mustBe(t, "epoch without state", d.Epoch, 0)
	b.load(item)
	d = b.reserve(item, 77, one(1))
	mustBe(t, "gate under another epoch", d.Gate, Fenced)
	mustBe(t, "verdict with the epoch it named", only(t, b.reserve(item, d.Epoch, one(1))).Verdict, Granted)
}

func TestRestartedRedisFences(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 3))
	b.reserve(item, epoch, one(1))
	b.rdb.HSet(t.Context(), item.stateKey(), "run_id", strings.Repeat("0", 40))

	mustBe(t, "gate", b.reserve(item, epoch, one(2)).Gate, Fenced)
	if ready, err := b.Ready(t.Context(), item); err != nil || ready {
		t.Fatalf("ready %v, error %v", ready, err)
	}
	for user := range int64(2) {
		_, _, _, _, _, err := b.Hold(t.Context(), item, user+1)
		mustFail(t, err, ErrFenced)
	}

	b.load(item)
	if ready, err := b.Ready(t.Context(), item); err != nil || !ready {
		t.Fatalf("ready %v, error %v after Load", ready, err)
	}
}

func TestOneItemPerActivity(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := onSale(1, 3), onSale(2, 3)
	first.PerActivity, second.PerActivity = true, true
	i1, e1 := b.loaded(first)
	i2, e2 := b.loaded(second)

	a := one(1)
	mustBe(t, "first item", only(t, b.reserve(i1, e1, a)).Verdict, Granted)
	r := only(t, b.reserve(i2, e2, one(1)))
	mustBe(t, "second item", r, Result{Verdict: AlreadyBought, Other: a.No})
	mustBe(t, "same number again", only(t, b.reserve(i1, e1, a)).Verdict, Repeated)

	// What the activity's items share survives the Load of one of them.
	b.write(i1, e1, a)
	b.load(i2)
	e2 = b.state(i2).Epoch
	mustBe(t, "after loading the second", only(t, b.reserve(i2, e2, one(1))).Verdict, AlreadyBought)
	// A buyer whose grant never became an order is forgotten by his item's Load.
	b.reserve(i2, e2, one(5))
	b.load(i2)
	e2 = b.state(i2).Epoch
	mustBe(t, "after his grant was lost", only(t, b.reserve(i1, e1, one(5))).Verdict, Granted)

	b.mustRelease(b.close(a.No))
	mustBe(t, "after the release", only(t, b.reserve(i2, e2, one(1))).Verdict, Granted)
	if err := b.Forget(t.Context(), i2); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "after the second was forgotten", only(t, b.reserve(i1, e1, one(1))).Verdict, Granted)
}

func TestLargeBatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 700))
	var all []Attempt
	for user := range int64(2 * MaxBatch) {
		all = append(all, one(user+1))
	}
	d := b.reserve(item, epoch, all[:MaxBatch]...)
	mustBe(t, "remaining", d.Remaining, 700-MaxBatch)
	for i, r := range d.Results {
		mustBe(t, "result", r, Result{Verdict: Granted, Seq: int64(i + 1)})
	}
	again := b.reserve(item, epoch, all[:MaxBatch]...)
	for i, r := range again.Results {
		mustBe(t, "repeated result", r, Result{Verdict: Repeated, Seq: int64(i + 1)})
	}
	d = b.reserve(item, epoch, all[MaxBatch:]...)
	mustBe(t, "last grant", d.Results[700-MaxBatch-1].Verdict, Granted)
	mustBe(t, "first refusal", d.Results[700-MaxBatch].Verdict, AllHeld)

	var none Decision
	if err := b.Reserve(t.Context(), item, epoch, append(all[:MaxBatch:MaxBatch], all[MaxBatch]), &none); err == nil {
		t.Error("a batch above the bound was taken")
	}
	if err := b.Reserve(t.Context(), item, epoch, []Attempt{{User: 1, No: ids.NewFor(1)}}, &none); err == nil {
		t.Error("an attempt for no units was taken")
	}
}

func TestHoldAndQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 10)
	n.UserLimit = 2
	item, epoch := b.loaded(n)
	first, second := one(1), Attempt{User: 2, No: ids.NewFor(2), Quantity: 2}
	b.reserve(item, epoch, first, second)

	no, quantity, seq, persisted, ok, err := b.Hold(t.Context(), item, 2)
	got := fmt.Sprint(no, quantity, seq, persisted, ok, err)
	mustBe(t, "second in line", got, fmt.Sprint(second.No, 2, 2, 0, true, nil))
	b.write(item, epoch, first)
	_, _, seq, persisted, _, _ = b.Hold(t.Context(), item, 2)
	mustBe(t, "position", seq-persisted, 1)
	b.write(item, epoch, second)
	_, _, seq, _, ok, _ = b.Hold(t.Context(), item, 2)
	mustBe(t, "written", fmt.Sprint(seq, ok), "0 true")
	_, _, _, _, ok, err = b.Hold(t.Context(), item, 3)
	mustBe(t, "somebody else", fmt.Sprint(ok, err), "false <nil>")

	// Another process knows no epoch yet and finds it.
	_, _, _, _, ok, err = b.instance().Hold(t.Context(), item, 2)
	mustBe(t, "through another instance", fmt.Sprint(ok, err), "true <nil>")

	users, err := b.Users(t.Context(), item, epoch, 100)
	mustBe(t, "holders", fmt.Sprint(len(users), err), "2 <nil>")
	users, err = b.Users(t.Context(), item, epoch, 1)
	mustBe(t, "bounded holders", fmt.Sprint(len(users), err), "1 <nil>")
}

func TestStaleHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 10))
	old, young, written := one(1), one(2), one(3)
	b.reserve(item, epoch, old, young, written)
	b.write(item, epoch, written)
	ago := time.Now().Add(-time.Minute).UnixMilli()
	b.rdb.HSet(t.Context(), item.holdsKey(epoch), old.No.String(), fmt.Sprintf("1:1:1:%d", ago))

	stale, err := b.StaleHolds(t.Context(), item, 10*time.Second, 10)
	mustBe(t, "stale", fmt.Sprint(stale, err), fmt.Sprint([]StaleHold{{No: old.No, User: 1, Quantity: 1, Seq: 1, Epoch: epoch}}, nil))
	stale, err = b.StaleHolds(t.Context(), item, 0, 1)
	mustBe(t, "bounded", fmt.Sprint(len(stale), err), "1 <nil>")
}

// The events of order drive releases and commits, packed and for several items.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	i1, e1 := b.loaded(onSale(1, 2))
	i2, e2 := b.loaded(onSale(2, 2))
	x, y, z := one(1), one(2), one(3)
	b.reserve(i1, e1, x, y)
	b.reserve(i2, e2, z)
	b.write(i1, e1, x, y)
	b.write(i2, e2, z)
	deliver := func(subject string, orders ...orderevent.Order) {
		data, err := json.Marshal(orderevent.Changed{Orders: orders})
		if err != nil {
			t.Fatal(err)
		}
		handled := false
		for _, sub := range b.Subscriptions() {
			if sub.Filter == subject {
				handled = true
				if err := sub.Handle(t.Context(), bus.Msg{ID: ids.New(), Subject: subject, Data: data}); err != nil {
					t.Fatal(err)
				}
			}
		}
		mustBe(t, subject+" has a subscription", handled, true)
	}
	deliver(orderevent.SubjectPaid, b.pay(x.No))
	mustBe(t, "committed", b.state(i1).Committed, 1)
	mustBe(t, "while one is unpaid", only(t, b.reserve(i1, e1, one(9))).Verdict, AllHeld)
	closed, other := b.close(y.No), b.close(z.No)
	deliver(orderevent.SubjectClosed, closed, other)
	mustBe(t, "returned", b.state(i1).Remaining, 1)
	mustBe(t, "returned of the other item", b.state(i2).Remaining, 2)
	mustBe(t, "told every instance", b.bus.count(inventoryevent.SubjectReturned), 2)
	deliver(orderevent.SubjectClosed, closed, other)
	mustBe(t, "told nobody about a repetition", b.bus.count(inventoryevent.SubjectReturned), 2)
	mustBe(t, "its path again", only(t, b.reserve(i1, e1, y)).Verdict, Finished)

	again := one(2)
	b.reserve(i1, e1, again)
	deliver(orderevent.SubjectRefused, b.orders.put(i1, again, e1, orderevent.StatusRefused))
	mustBe(t, "refused before a row was seen: persisted", b.state(i1).Persisted, b.state(i1).Seq)
	last := one(4)
	b.reserve(i1, e1, last)
	b.write(i1, e1, last)
	deliver(orderevent.SubjectPaid, b.pay(last.No))
	mustBe(t, "all paid", only(t, b.reserve(i1, e1, one(10))).Verdict, SoldOut)

	if err := b.Subscriptions()[0].Handle(t.Context(), bus.Msg{Data: []byte("{")}); err == nil {
		t.Error("a broken event was taken for handled")
	}
}

// An event that meets a fenced or missing item is to come again, unless the sale
// is over and its keys are gone: then Postgres alone keeps the books.
func TestEventsWaitForLoad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 2))
	paid, closed := one(1), one(2)
	b.reserve(item, epoch, paid, closed)
	b.write(item, epoch, paid, closed)
	payment, closing := b.pay(paid.No), b.close(closed.No)
	both := func() []error {
		return []error{
			b.commit(t.Context(), item, []orderevent.Order{payment}),
			b.release(t.Context(), item, []orderevent.Order{closing}),
		}
	}
	b.rdb.HSet(t.Context(), item.stateKey(), "fenced", epoch+1)
	for _, err := range both() {
		mustFail(t, err, ErrFenced)
	}
	b.rdb.FlushDB(t.Context())
	for _, err := range both() {
		mustFail(t, err, ErrFenced)
	}
	b.load(item)
	for _, err := range both() {
		mustFail(t, err, nil)
	}
	st := b.state(item)
	mustBe(t, "books", fmt.Sprint(st.Remaining, st.Committed), "1 1")
	mustBe(t, "the closed number", only(t, b.reserve(item, st.Epoch, closed)).Verdict, Finished)

	b.inTx(func(tx pgx.Tx) error {
		past, earlier := time.Now().Add(-time.Second), time.Now().Add(-time.Hour)
		return b.Change(t.Context(), tx, item.ID, Change{OpensAt: &earlier, ClosesAt: &past})
	})
	if err := b.Forget(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	for _, err := range both() {
		mustFail(t, err, nil)
	}
	b.inTx(func(tx pgx.Tx) error { return b.Delete(t.Context(), tx, []int64{item.ID}) })
	for _, err := range both() {
		mustFail(t, err, nil)
	}
}

// A paid order whose units come back all the same stops counting as sold.
func TestReleaseOfCommittedUnits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 5)
	n.UserLimit = 3
	item, epoch := b.loaded(n)
	kept, refunded := one(1), Attempt{2, ids.NewFor(2), 3}
	b.reserve(item, epoch, kept, refunded)
	b.write(item, epoch, kept, refunded)
	b.mustCommit(b.pay(kept.No))
	b.mustCommit(b.pay(refunded.No))
	b.mustRelease(b.close(refunded.No))
	st := b.state(item)
	mustBe(t, "books", fmt.Sprint(st.Remaining, st.Committed), "4 1")
}

// Every key of an item lies in one slot, and no two items share a name.
func TestKeysOfAScriptShareASlot(t *testing.T) {
	t.Parallel()
	for _, item := range []Item{{ID: 1, ActivityID: 7}, {ID: 1, ActivityID: 7, Shard: 3}, {ID: 1, ActivityID: 7, PerActivity: true}} {
		keys := append(item.epochKeys(5), item.stateKey(), item.buyersKey())
		for _, k := range keys {
			tag, _, ok := strings.Cut(k, "}")
			if !ok || tag+"}" != item.group() {
				t.Errorf("key %s does not begin with %s", k, item.group())
			}
		}
	}
}

func FuzzParseMark(f *testing.F) {
	f.Add("0190a1b2c3d4e5f60718293a4b5c6d7e:2:c")
	f.Add("0190a1b2c3d4e5f60718293a4b5c6d7e")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMark(text)
		if err != nil {
			return
		}
		back, err := parseMark(m.String())
		if err != nil || back != m {
			t.Errorf("%q became %v and then %v, %v", text, m, back, err)
		}
	})
}
