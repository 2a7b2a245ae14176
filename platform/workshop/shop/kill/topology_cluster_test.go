package kill

import (
	"testing"
	"time"

	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/redistest"
)

// awayForCluster is how long the items of one node may be unavailable when it
// dies: 1 s until the others consider it dead, 1.5 s for the election, a second
// until the client follows, another until the item is checked, and the publish
// deadline of 1 s that the test sets.
const awayForCluster = 5500 * time.Millisecond

// TestSaleSurvivesLossOfARedisClusterNode has an item with shards on every node
// and a small one on one node, and kills another in the middle of the sale.
func TestSaleSurvivesLossOfARedisClusterNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.Shards(t, 3)
	s := openShop(t, cluster.URL, bustest.StartServer(t).URL, "--publish-deadline=1s", "--stock-shards=4")
	const stock = 100 // of the small one, and for each shard
	sales := s.publish(4*stock, stock)
	s.send(sales[0], 4*stock, 0)
	s.send(sales[1], stock, 1)
	owner := func(sale loadgen.Planned) *redistest.Server { return cluster.Owner(t, "{g:i"+sale.ItemID+":0}") }
	victim := owner(sales[0])
	if owner(sales[1]) == victim {
		t.Fatal("both items are on one node")
	}
	cluster.AddReplica(t, victim)
	s.rush(t.Context())
	s.rushWhile(func() {
		victim.Kill()
		s.sellsWithin(sales[1], time.Second) // an item of another node is not affected
		s.sellsWithin(sales[0], awayForCluster)
	})
	s.rush(t.Context())
	s.settle()
}
