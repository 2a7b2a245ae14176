package inventory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/inventoryevent"
	"stampede/order/orderevent"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/require"
)

// The events of order cause releases and commits, packed and for several items.
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
	b.work(b.runKeepers)
	deliver := func(subject string, orders ...orderevent.Order) {
		t.Helper()
		require.NoError(t, errors.Join(b.deliver(subject, orders...), b.AwaitKeepers(t.Context())))
	}
	deliver(orderevent.SubjectPaid, b.pay(x.No))
	mustBe(t, "committed", b.state(i1).Committed, 1)
	mustBe(t, "while one is unpaid", only(t, b.reserve(i1, e1, one(9))).Verdict, AllHeld)
	closed, other := b.close(y.No), b.close(z.No)
	deliver(orderevent.SubjectClosed, closed, other)
	mustBe(t, "returned", b.state(i1).Remaining, 1)
	mustBe(t, "returned of the other item", b.state(i2).Remaining, 2)
	mustBe(t, "broadcasts", b.bus.count(inventoryevent.SubjectReturned), 2)
	deliver(orderevent.SubjectClosed, closed, other)
	mustBe(t, "no broadcast for a repetition", b.bus.count(inventoryevent.SubjectReturned), 2)
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
		t.Error("a malformed event was treated as handled")
	}
}

// The end of an order waits while its item is fenced or missing, unless the sale is
// over and its keys are gone: then only Postgres has the books.
func TestEndsWaitForLoad(t *testing.T) {
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
	require.NoError(t, b.Forget(t.Context(), item))
	for _, err := range both() {
		mustFail(t, err, nil)
	}
	b.inTx(func(tx pgx.Tx) error { return b.Delete(t.Context(), tx, []int64{item.ID}) })
	for _, err := range both() {
		mustFail(t, err, nil)
	}
}
