package rush

import (
	"net/http"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
	"stampede/seckill/catalogue"
)

func TestAdmissionRateIsLiveEverywhere(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1000)
	a, b := y.instance([]*catalogue.Item{it}), y.instance([]*catalogue.Item{it})
	a.work()
	b.work()
	held, got := a.buy(1, it)
	if got.Status != http.StatusAccepted {
		t.Fatalf("%+v", got)
	}
	b.buy(2, it)

	if err := a.rush.SetAdmission(t.Context(), it.ID, new(1)); err != nil {
		t.Fatal(err)
	}
	for n, i := range []*instance{a, b} {
		pgtest.Eventually(t, 30*time.Second, func() bool { return i.rush.lanes.find(it.ID).limiter.Load() != nil }, "the rate took effect")
		refused := 0
		for k := range int64(10) {
			if _, got := i.buy(int64(n+1)*100+k, it); got.Code == "too-hot" {
				refused++
			}
		}
		if refused < 5 {
			t.Fatalf("instance %d refused %d of 10 at one a second", n, refused)
		}
	}
	if got := a.send(held.Path); got.Status != http.StatusAccepted {
		t.Fatalf("a holder was not admitted: %+v", got)
	}
	if err := a.rush.SetAdmission(t.Context(), it.ID, new(0)); err != nil {
		t.Fatal(err)
	}
	for n, i := range []*instance{a, b} {
		pgtest.Eventually(t, 30*time.Second, func() bool {
			lim := i.rush.lanes.find(it.ID).limiter.Load()
			return lim != nil && lim.Limit() == 0
		}, "the line was closed")
		for k := range int64(10) {
			if _, got := i.buy(int64(n+3)*100+k, it); got.Code != "too-hot" {
				t.Fatalf("instance %d answered %+v at none a second", n, got)
			}
		}
	}
	if got := a.send(held.Path); got.Status != http.StatusAccepted {
		t.Fatalf("a holder was not admitted to a closed line: %+v", got)
	}
	if err := a.rush.SetAdmission(t.Context(), it.ID, nil); err != nil {
		t.Fatal(err)
	}
	for _, i := range []*instance{a, b} {
		pgtest.Eventually(t, 30*time.Second, func() bool { return i.rush.lanes.find(it.ID).limiter.Load() == nil }, "the rate was lifted")
	}
}
