package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

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
	mustBe(t, "another user", fmt.Sprint(ok, err), "false <nil>")

	// Another process does not know the epoch yet and finds it.
	_, _, _, _, ok, err = b.instance().Hold(t.Context(), item, 2)
	mustBe(t, "through another instance", fmt.Sprint(ok, err), "true <nil>")

	users, err := b.Users(t.Context(), item, epoch, 100)
	mustBe(t, "holders", fmt.Sprint(len(users), err), "2 <nil>")
	users, err = b.Users(t.Context(), item, epoch, 1)
	mustBe(t, "bounded holders", fmt.Sprint(len(users), err), "1 <nil>")

	// The list of an epoch that a Load has replaced is gone, which says nothing
	// about the holders.
	b.load(item)
	_, err = b.Users(t.Context(), item, epoch, 100)
	mustFail(t, err, ErrFenced)
	users, err = b.Users(t.Context(), item, b.state(item).Epoch, 100)
	mustBe(t, "holders after the Load", fmt.Sprint(len(users), err), "2 <nil>")
}

func TestStaleHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 10))
	old, hurried, ahead, young, written := one(1), one(2), one(3), one(4), one(5)
	hurried.PayWithin = 30
	b.reserve(item, epoch, old, hurried, ahead, young, written)
	b.write(item, epoch, written)
	b.grantedAt(item, epoch, time.Now().Add(-time.Minute), old.No, hurried.No)
	b.grantedAt(item, epoch, time.Now().Add(time.Minute), ahead.No) // Redis's clock was set back since

	stale, err := b.StaleHolds(t.Context(), item, 10*time.Second, 10)
	slices.SortFunc(stale, func(a, b StaleHold) int { return cmp.Compare(a.Seq, b.Seq) })
	mustBe(t, "stale", fmt.Sprint(stale, err), fmt.Sprint([]StaleHold{
		{No: old.No, User: 1, Quantity: 1, Seq: 1, Epoch: epoch},
		{No: hurried.No, User: 2, Quantity: 1, PayWithin: 30, Seq: 2, Epoch: epoch},
		{No: ahead.No, User: 3, Quantity: 1, Seq: 3, Epoch: epoch},
	}, nil))
	stale, err = b.StaleHolds(t.Context(), item, 0, 1)
	mustBe(t, "bounded", fmt.Sprint(len(stale), err), "1 <nil>")
}

// grantedAt changes the time of grants.
func (b *bundle) grantedAt(item Item, epoch int64, at time.Time, nos ...ids.ID) {
	b.t.Helper()
	for _, no := range nos {
		parts := strings.Split(b.rdb.HGet(b.t.Context(), item.holdsKey(epoch), no.String()).Val(), ":")
		parts[3] = strconv.FormatInt(at.UnixMilli(), 10)
		require.NoError(b.t, b.rdb.HSet(b.t.Context(), item.holdsKey(epoch), no.String(), strings.Join(parts, ":")).Err())
	}
}

// Every reader of holds accepts one with its own payment window, and no mark
// contains the window.
func TestAPaymentWindowStaysWithItsHold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 10)
	n.UserLimit = 2
	item, epoch := b.loaded(n)
	single, double := Attempt{User: 1, No: ids.NewFor(1), Quantity: 1, PayWithin: 30}, Attempt{User: 2, No: ids.NewFor(2), Quantity: 2, PayWithin: 65535}
	other := one(2)
	// In the batch of the grant itself and in a later one.
	for range 2 {
		d := b.reserve(item, epoch, single, double, other)
		mustBe(t, "in the way", d.Results[2], Result{Verdict: AlreadyBought, Other: double.No, Seq: 2, Quantity: 2, PayWithin: 65535})
	}
	mustBe(t, "the same again", only(t, b.reserve(item, epoch, single)), Result{Verdict: Repeated, Seq: 1})
	mustBe(t, "marks", fmt.Sprint(readUsers(b, item, epoch)), fmt.Sprintf("map[1:%s 2:%s:2]", single.No, double.No))
	no, quantity, seq, _, ok, err := b.Hold(t.Context(), item, 2)
	mustBe(t, "the queue", fmt.Sprint(no, quantity, seq, ok, err), fmt.Sprint(double.No, 2, 2, true, nil))

	b.write(item, epoch, single, double)
	b.mustCommit(b.pay(single.No))
	b.mustRelease(b.close(double.No))
	st := b.state(item)
	mustBe(t, "books", fmt.Sprint(st.Remaining, st.Committed, st.Persisted), "9 1 2")
	var none Decision
	if err := b.Reserve(t.Context(), item, epoch, []Attempt{{User: 3, No: ids.NewFor(3), Quantity: 1, PayWithin: -1}}, &none); err == nil {
		t.Error("an attempt with no time to pay was accepted")
	}
}
