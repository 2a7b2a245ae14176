package main

import (
	"testing"
	"time"

	"stampede/platform/workshop/redistest"
)

// awayForSentinels is how long a sale may be away when the primary dies: 0.7 s
// until the sentinels take it for dead, up to 1.5 s for their election, a second
// until the client follows and somebody looks at the item, and the publish
// deadline of 1 s that the test sets.
const awayForSentinels = 4200 * time.Millisecond

// TestASaleGoesOnWhenSentinelsReplaceThePrimary kills the Redis primary in the
// middle of a sale. The replica that takes over lacks what was written last:
// grants, and changes of orders.
func TestASaleGoesOnWhenSentinelsReplaceThePrimary(t *testing.T) {
	t.Parallel()
	group := redistest.Sentinels(t)
	s := openShop(t, group.URL, startNATS(t), "--publish-deadline=1s")
	const stock = 240
	sale := s.publish(1, stock)[0]
	s.send(sale, stock, 0)
	s.send(sale, stock, 1)
	s.sells(sale)
	s.rush(nil)

	// Soon: the sentinels would take a replica that lags for long for dead, too.
	group.Lag(t)
	s.sells(sale)
	s.rushWhile(func() {
		group.Fail(t)
		away := s.sells(sale)
		t.Logf("the sale was away for %s", away)
		if away > 3*awayForSentinels {
			t.Errorf("the sale was away for %s; %s are promised", away, awayForSentinels)
		}
	})
	s.rush(nil)
	s.settle()
}
