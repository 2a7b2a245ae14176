package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// groupName is the sentinels' name for the group.
const groupName = "shop"

// Group is a primary and a replica under three sentinels, two of which must
// agree that the primary is down.
type Group struct {
	Primary, Replica *Server
	// URL is the URL for a server under test: redis-sentinel://….
	URL string

	sentinels []*Server
}

// Sentinels starts a group and returns when a failover would work: the replica
// is in sync, and every sentinel knows the replica and the other sentinels.
func Sentinels(t testing.TB) *Group {
	t.Helper()
	g := &Group{Primary: Start(t)}
	g.Replica = StartReplica(t, g.Primary)
	var addrs []string
	for range 3 {
		dir := t.TempDir()
		s := start(t, func(port string) []string {
			// Sentinels store their state in their configuration file, so each has one.
			name := filepath.Join(dir, "sentinel.conf")
			text := fmt.Sprintf(`port %s
bind 127.0.0.1
dir %q
logfile %q
sentinel monitor %[4]s 127.0.0.1 %[5]s 2
sentinel down-after-milliseconds %[4]s 700
sentinel failover-timeout %[4]s 2000
`, port, dir, filepath.Join(dir, "log"), groupName, g.Primary.port())
			require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
			return []string{name, "--sentinel"}
		}, filepath.Join(dir, "log"))
		// Sentinels find each other and the replica by periodic messages; ten
		// times as many make the start ten times shorter. A sentinel that the
		// machine stalls for two seconds would distrust its clock and decide
		// nothing for the next thirty: longer than a test waits for a failover.
		quick := s.Client.Do(context.Background(), "SENTINEL", "DEBUG", "INFO-PERIOD", 200, "PUBLISH-PERIOD", 200, "TILT-PERIOD", 500)
		require.NoError(t, quick.Err())
		g.sentinels, addrs = append(g.sentinels, s), append(addrs, s.Addr)
	}
	g.URL = "redis-sentinel://" + strings.Join(addrs, ",") + "/0?master=" + groupName
	pgtest.Eventually(t, ready, func() bool {
		for _, s := range g.sentinels {
			seen := sentinelView(s)
			if seen["num-slaves"] != "1" || seen["num-other-sentinels"] != "2" || seen["flags"] != "master" {
				return false
			}
		}
		return true
	}, "the sentinels know each other and the replica")
	return g
}

// sentinelView returns a sentinel's view of the group.
func sentinelView(s *Server) map[string]string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c := redis.NewSentinelClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = c.Close() }() // one query
	return c.Master(ctx, groupName).Val()
}

// Lag cuts the replica off from all further writes to the primary, like a slow
// network: if the primary then fails, they are lost. It must not last longer
// than half a second, or the sentinels consider the replica dead.
func (g *Group) Lag(t testing.TB) {
	t.Helper()
	require.NoError(t, g.Replica.cmd.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, g.Primary.Client.ClientKillByFilter(context.Background(), "TYPE", "replica").Err())
}

// Fail kills the primary. The sentinels promote the replica with the data that it has.
func (g *Group) Fail(t testing.TB) {
	t.Helper()
	g.Primary.Kill()
	require.NoError(t, g.Replica.cmd.Process.Signal(syscall.SIGCONT))
}
