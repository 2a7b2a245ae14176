package rush

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stampede/inventory"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/seckill/catalogue"
)

// One item's state in Redis cannot be read; the others are still checked, and each
// is reported with its own reason.
func TestEachItemIsJudgedByItself(t *testing.T) {
	t.Parallel()
	y := setup(t)
	broken, good, gone, fenced := y.Item(10), y.Item(10), y.Item(10), y.Item(10)
	i := y.instance([]*catalogue.Item{broken, good, gone, fenced})
	state := func(it *catalogue.Item) string { return fmt.Sprintf("{g:i%d:0}:%d:state", it.ID, it.ID) }
	for _, err := range []error{
		y.Redis.Set(t.Context(), state(broken), "not a hash", 0).Err(),
		y.Redis.Del(t.Context(), state(gone)).Err(),
		y.Redis.HSet(t.Context(), state(fenced), "fenced", 99).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	found, err := i.rush.FencedProbe().Look(t.Context())
	if err == nil {
		t.Error("no error for the item that cannot be read")
	}
	want := []alarm.Finding{
		{Subject: inventory.ItemSubject(gone.ID), Detail: "It has no state in Redis."},
		{Subject: inventory.ItemSubject(fenced.ID), Detail: "Its Load has not finished."},
	}
	slices.SortFunc(found, func(a, b alarm.Finding) int { return strings.Compare(a.Subject, b.Subject) })
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An item on sale whose keys Redis has lost, and that is not loaded again.
func TestItemOnSaleWithoutStateIsAnAlarm(t *testing.T) {
	t.Parallel()
	y := setup(t)
	open := y.Item(10)
	later := y.Item(10, func(it *catalogue.Item) { it.OpensAt = time.Now().Add(10 * time.Minute) })
	i := y.instance([]*catalogue.Item{open, later})
	raised := func() []alarm.Alarm {
		l, err := alarm.List(t.Context(), y.DB, alarm.Filter{Code: alarmItemFenced.Code})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	probe := i.rush.FencedProbe()
	if found, err := probe.Look(t.Context()); err != nil || len(found) != 0 {
		t.Fatalf("loaded items: %+v, %v", found, err)
	}
	if err := y.Redis.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	probe.For, probe.Every = 0, 20*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- alarm.NewWatch(y.DB, slog.New(slog.DiscardHandler), probe).Run(ctx) }()
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(raised()) > 0 }, "the alarm")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if l := raised(); len(l) != 1 || l[0].Subject != inventory.ItemSubject(open.ID) {
		t.Errorf("alarms %+v", l)
	}
	// An item whose sale is over needs no Load.
	i.clock.Advance(365 * 24 * time.Hour)
	if found, err := probe.Look(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("ended items: %+v, %v", found, err)
	}
}
