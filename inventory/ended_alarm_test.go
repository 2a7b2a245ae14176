package inventory

import (
	"encoding/json"
	"errors"
	"testing"

	"stampede/order/orderevent"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
)

// A release that Redis rejects is retried, and after a while raises an alarm; a
// fenced item that is about to be loaded does not.
func TestReleaseThatKeepsFailingAsksForAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 3))
	a := one(1)
	b.reserve(item, epoch, a)
	b.write(item, epoch, a)
	data, err := json.Marshal(orderevent.Changed{Orders: []orderevent.Order{b.close(a.No)}})
	if err != nil {
		t.Fatal(err)
	}
	raised := func() []alarm.Alarm {
		t.Helper()
		l, err := alarm.List(t.Context(), b.db, alarm.Filter{Code: alarmReleaseFailing.Code})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	release := func(attempt int) error {
		return b.onEnded(b.release)(t.Context(), bus.Msg{Subject: orderevent.SubjectClosed, Data: data, Attempt: attempt})
	}
	// The key has a value of another type.
	if err := b.rdb.Rename(t.Context(), item.usersKey(epoch), "kept").Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.rdb.Set(t.Context(), item.usersKey(epoch), "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for attempt := 1; attempt <= 25; attempt++ {
		if release(attempt) == nil {
			t.Fatal("the release succeeded")
		}
		if want, got := attempt/failingAttempts, raised(); attempt < failingAttempts && len(got) != 0 || want > 0 && (len(got) != 1 || got[0].Count != int64(want)) {
			t.Fatalf("after %d attempts: %+v", attempt, got)
		}
	}
	if l := raised(); l[0].Subject != orderevent.SubjectClosed || l[0].Detail == "" {
		t.Errorf("alarm %+v", l[0])
	}
	// Repaired, it succeeds.
	if err := b.rdb.Rename(t.Context(), "kept", item.usersKey(epoch)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(release(26), release(27)); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "remaining", b.state(item).Remaining, 3)
}
