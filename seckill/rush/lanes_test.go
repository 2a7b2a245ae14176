package rush

import (
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
	"stampede/seckill/catalogue"
)

// A stop answers the waiting attempts and finishes the batches in progress.
func TestDrainAnswersEveryAttempt(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	stop := i.work()
	g := i.gate()
	pgtest.Eventually(t, 30*time.Second, func() bool { return !i.rush.lanes.draining.Load() }, "working")
	l := i.rush.lanes.open(it.ID)
	first := busy(t, l, g, 1)
	var waiting []*attempt
	for k := range int64(20) {
		waiting = append(waiting, mustEnter(t, l, waiter(t.Context(), 100+k)))
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	pgtest.Eventually(t, 30*time.Second, l.hasEnded, "the lane ended")
	if o, in := l.enter(waiter(t.Context(), 999), time.Now()); in || o != outDraining {
		t.Fatalf("entered an ended lane: %v", o)
	}
	select {
	case <-stopped:
		t.Fatal("stopped with batches in progress")
	default:
	}
	g.open()
	<-stopped
	for _, a := range first {
		if v := a.wait(t); v.outcome != outQueued {
			t.Fatalf("in progress: %v", v.outcome)
		}
	}
	for _, a := range waiting {
		if v := a.wait(t); v.outcome != outDraining {
			t.Fatalf("waiting: %v", v.outcome)
		}
	}
	if a := i.send(i.issue(5, it, 1).Path); a.Code != "draining" {
		t.Fatalf("%+v", a)
	}
}

func TestLaneEndsWithItsItem(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it, other := y.Item(10), y.Item(10)
	i := y.instance([]*catalogue.Item{it, other})
	l, stays := i.rush.lanes.open(it.ID), i.rush.lanes.open(other.ID)
	i.listing.Show(other)
	i.work()
	pgtest.Eventually(t, 30*time.Second, l.hasEnded, "the lane ended")
	if i.rush.lanes.all.find(it.ID) != nil || i.rush.lanes.all.find(other.ID) != stays || stays.hasEnded() {
		t.Fatal("the wrong lane ended")
	}
}
