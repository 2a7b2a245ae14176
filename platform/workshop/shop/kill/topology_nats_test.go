package kill

import (
	"testing"
	"time"

	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// awayForNATS is how long a sale may be unavailable when a NATS server is
// killed: its peers wait 4 to 9 s before they elect another leader, which is
// not configurable, and up to 2 s pass until a probe is stored.
const awayForNATS = 11 * time.Second

// TestSaleSurvivesLossOfANATSServer kills the leader of the grants stream in
// the middle of a sale.
func TestSaleSurvivesLossOfANATSServer(t *testing.T) {
	t.Parallel()
	cluster := bustest.OpenCluster(t)
	s := openShop(t, pgtest.RedisURL(t), cluster.URL)
	for _, stream := range []string{"GRANTS", "EVENTS"} {
		_, copies := cluster.Stream(t, stream)
		require.Equal(t, "replicas of "+stream, copies, 3)
	}
	const stock = 190
	sale := s.publish(stock)[0]
	s.send(sale, stock, 0)
	s.send(sale, stock, 1)
	s.sells(sale)
	s.rush(t.Context())
	s.rushWhile(func() {
		leader, _ := cluster.Stream(t, "GRANTS")
		cluster.Kill(leader)
		s.sellsWithin(sale, awayForNATS)
	})
	s.rush(t.Context())
	s.settle()
}
