package kill

import (
	"testing"
	"time"

	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/redistest"
)

// awayForSentinels is how long a sale may be unavailable when the primary dies:
// 0.7 s until the sentinels consider it dead, up to 1.5 s for their election, a
// second until the client follows and the item is checked, and the publish
// deadline of 1 s that the test sets.
const awayForSentinels = 4200 * time.Millisecond

// TestSaleSurvivesASentinelFailover kills the Redis primary in the middle of a
// sale. The replica that takes over lacks the last writes: grants, and changes
// of orders.
func TestSaleSurvivesASentinelFailover(t *testing.T) {
	t.Parallel()
	group := redistest.Sentinels(t)
	s := openShop(t, group.URL, bustest.StartServer(t).URL, "--publish-deadline=1s")
	const stock = 240
	sale := s.publish(stock)[0]
	s.send(sale, stock, 0)
	s.send(sale, stock, 1)
	s.sells(sale)
	s.rush(t.Context())

	// Soon: the sentinels would also consider a replica dead that lags for long.
	group.Lag(t)
	s.sells(sale)
	s.rushWhile(func() {
		group.Fail(t)
		s.sellsWithin(sale, awayForSentinels)
	})
	s.rush(t.Context())
	s.settle()
}
