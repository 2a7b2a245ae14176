package redistest

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// slots is how many hash slots a cluster has.
const slots = 16384

// Cluster is a Redis cluster of primaries.
type Cluster struct {
	Primaries []*Server
	// URL is the URL for a server under test: redis-cluster://….
	URL string
}

// Shards starts a cluster whose slots are spread evenly over n primaries, and
// returns when every one of them reports a complete cluster. It has no replicas
// until AddReplica.
func Shards(t testing.TB, n int) *Cluster {
	t.Helper()
	ctx := context.Background()
	c := &Cluster{}
	var addrs []string
	for i := range n {
		s := startNode(t)
		first, last := i*slots/n, (i+1)*slots/n-1
		require.NoError(t, s.Client.ClusterAddSlotsRange(ctx, first, last).Err())
		// Nodes that start with the same epoch would have to resolve that first.
		require.NoError(t, s.Client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		c.Primaries, addrs = append(c.Primaries, s), append(addrs, s.Addr)
	}
	for _, s := range c.Primaries[1:] {
		c.meet(t, s)
	}
	c.URL = "redis-cluster://" + strings.Join(addrs, ",")
	pgtest.Eventually(t, ready, func() bool {
		for _, s := range c.Primaries {
			text := s.Client.ClusterInfo(ctx).Val()
			if !strings.Contains(text, "cluster_state:ok") || !strings.Contains(text, "cluster_slots_ok:"+strconv.Itoa(slots)) {
				return false
			}
		}
		return true
	}, "the cluster is whole")
	return c
}

// startNode runs a server in cluster mode.
func startNode(t testing.TB) *Server {
	t.Helper()
	return Start(t,
		"--cluster-enabled", "yes", "--cluster-port", freePort(t),
		// The lowest value at which a busy machine does not mistake a slow node
		// for a dead one.
		"--cluster-node-timeout", "1000",
		// Items on the other nodes keep selling while one node is down.
		"--cluster-require-full-coverage", "no",
		// A replica disconnected from its primary for that long may still take over.
		"--cluster-replica-validity-factor", "0",
	)
}

// meet introduces a node to the cluster.
func (c *Cluster) meet(t testing.TB, s *Server) {
	t.Helper()
	ctx := context.Background()
	busPort, err := s.Client.ConfigGet(ctx, "cluster-port").Result()
	require.NoError(t, err)
	require.NoError(t, c.Primaries[0].Client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", s.port(), busPort["cluster-port"]).Err())
}

// AddReplica starts a replica of one primary and returns when it could take
// over: it is in sync, and the other primaries, which vote, know it as a
// replica.
func (c *Cluster) AddReplica(t testing.TB, primary *Server) {
	t.Helper()
	ctx := context.Background()
	replica := startNode(t)
	c.meet(t, replica)
	id := c.id(t, primary)
	pgtest.Eventually(t, ready, func() bool {
		return replica.Client.ClusterReplicate(ctx, id).Err() == nil // an error until it knows the primary
	}, "the replica knows its primary")
	self := c.id(t, replica)
	pgtest.Eventually(t, ready, func() bool {
		for _, s := range c.Primaries {
			if !strings.Contains(lineOf(s, self), " slave "+id+" ") {
				return false
			}
		}
		return replica.inSync()
	}, "the replica is in step and known to the cluster")
}

// id returns a node's id in the cluster.
func (c *Cluster) id(t testing.TB, s *Server) string {
	t.Helper()
	id, err := s.Client.Do(context.Background(), "CLUSTER", "MYID").Text()
	require.NoError(t, err)
	return id
}

// lineOf returns a server's CLUSTER NODES line for a node, "" if it does not
// know the node.
func lineOf(s *Server, id string) string {
	for line := range strings.Lines(s.Client.ClusterNodes(context.Background()).Val()) {
		if strings.HasPrefix(line, id) {
			return line
		}
	}
	return ""
}

// Owner returns the primary that stores a key.
func (c *Cluster) Owner(t testing.TB, key string) *Server {
	t.Helper()
	ctx := context.Background()
	slot, err := c.Primaries[0].Client.ClusterKeySlot(ctx, key).Result()
	require.NoError(t, err)
	parts, err := c.Primaries[0].Client.ClusterSlots(ctx).Result() //nolint:staticcheck // names the primary of each range first
	require.NoError(t, err)
	for _, part := range parts {
		for _, s := range c.Primaries {
			if int64(part.Start) <= slot && slot <= int64(part.End) && s.Addr == part.Nodes[0].Addr {
				return s
			}
		}
	}
	t.Fatalf("no primary has slot %d", slot)
	return nil
}
