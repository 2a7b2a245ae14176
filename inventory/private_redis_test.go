package inventory

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"stampede/platform/embedded"
	"stampede/platform/ids"
	"stampede/platform/pgtest"
)

// privateRedis starts a server of the test's own, for what must not be done to
// the shared one: settings of the whole server, and cluster mode.
func privateRedis(t *testing.T, args ...string) (addr string) {
	t.Helper()
	programs, err := embedded.Find()
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	addr = net.JoinHostPort("127.0.0.1", port)
	dir := t.TempDir()
	args = append([]string{
		"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--logfile", filepath.Join(dir, "log"),
	}, args...)
	cmd := exec.CommandContext(t.Context(), programs.Redis, args...)
	cmd.Env = embedded.ChildEnv(programs.Redis) // an unpacked server needs its libraries
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the test's context, ended before, has killed it
	one := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = one.Close() }()
	pgtest.Eventually(t, 20*time.Second, func() bool { return one.Ping(t.Context()).Err() == nil }, "redis-server answers")
	return addr
}

// On a cluster a script that touched a key it does not declare, or one of
// another slot, would fail.
func TestOnARedisCluster(t *testing.T) {
	t.Parallel()
	addr := privateRedis(t, "--cluster-enabled", "yes", "--cluster-port", freePort(t))
	node := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = node.Close() }()
	if err := node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, 20*time.Second, func() bool {
		return strings.Contains(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	}, "the cluster is ready")
	b := setup(t)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{addr}, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = cluster.Close() }()
	b.deps.Redis = cluster

	n := onSale(1, 5)
	n.PerActivity = true
	item, epoch := b.loaded(n)
	x, y, z := one(1), one(2), one(3)
	b.reserve(item, epoch, x, y, z)
	b.write(item, epoch, x, y)
	b.mustCommit(b.pay(x.No))
	b.mustRelease(b.close(y.No))
	b.inTx(func(tx pgx.Tx) error { return b.Change(t.Context(), tx, item.ID, Change{AddStock: new(int32(2))}) })
	if err := b.Apply(t.Context(), item.ID); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "sequence", func() int64 { _, _, seq, _, _, _ := b.Hold(t.Context(), item, 3); return seq }(), 3)
	b.mustBeClean()
	b.load(item)
	st := b.state(item)
	mustBe(t, "books", fmt.Sprint(st.Total, st.Remaining, st.Committed), "7 6 1")
	b.mustBeClean()
}

// A full Redis refuses to give units away, before anything is written, and still
// takes them back.
func TestFullRedisStillTakesUnitsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rdb := redis.NewClient(&redis.Options{Addr: privateRedis(t)})
	defer func() { _ = rdb.Close() }()
	b.deps.Redis = rdb
	item, epoch := b.loaded(onSale(1, 5))
	x, y := one(1), one(2)
	b.reserve(item, epoch, x, y)
	b.write(item, epoch, x)
	before := b.state(item)
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	var d Decision
	if err := b.Reserve(t.Context(), item, epoch, []Attempt{one(3)}, &d); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("a full Redis decided: %v", err)
	}
	mustBe(t, "state after the refusal", b.state(item), before)
	if err := b.Persisted(t.Context(), item, epoch, []ids.ID{y.No}); err != nil {
		t.Error(err)
	}
	b.mustCommit(b.pay(x.No))
	b.mustRelease(b.close(x.No))
	mustBe(t, "remaining", b.state(item).Remaining, 4)
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
