package rush

import (
	"sync"
	"testing"

	"stampede/seckill/catalogue"
)

// Many items concurrently, each with its own lane; all counts agree.
func TestFunnelCountsEveryAnswer(t *testing.T) {
	t.Parallel()
	y := setup(t)
	items := []*catalogue.Item{y.Item(20), y.Item(30)}
	i := y.instance(items)
	const shoppers = 100
	var wg sync.WaitGroup
	for _, it := range items {
		for u := range int64(shoppers) {
			p := i.issue(u+1, it, 1)
			wg.Go(func() { i.send(p.Path) })
		}
	}
	wg.Wait()
	for _, it := range items {
		f := i.rush.Funnel(it.ID)
		sum := int64(0)
		for _, n := range f {
			sum += n
		}
		if sum != shoppers || f["queued"] != int64(it.Total) {
			t.Fatalf("item with %d units: %v", it.Total, f)
		}
	}
	if f := i.rush.Funnel(12345); len(f) != 0 {
		t.Fatalf("an unknown item: %v", f)
	}
}
