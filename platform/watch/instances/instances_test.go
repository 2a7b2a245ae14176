package instances

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// every is how often the tests' instances report.
const every = 200 * time.Millisecond

// shop is what its instances share.
type shop struct {
	db  *pgxpool.Pool
	rdb redis.UniversalClient
}

const key, other = "the key of every instance, 32 bytes long", "another key that has 32 bytes, too"

// join starts an instance, whose stop leaves the others.
func (s shop) join(t *testing.T, cfg Config, nats string) (*Registry, *app.App, error) {
	t.Helper()
	return s.joinAt(t, cfg, func() string { return nats })
}

// joinAt is join with a NATS that changes.
func (s shop) joinAt(t *testing.T, cfg Config, nats func() string) (*Registry, *app.App, error) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	a := app.New(log)
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })
	r, err := join(t.Context(), a, cfg, Deps{
		DB: s.db, Redis: s.rdb, NATS: func(context.Context) (string, error) { return nats(), nil }, Log: log,
	}, every)
	return r, a, err
}

// An instance that does not fit those that run is refused within one report of theirs; a key
// that each accepts from the other fits, and so does an instance after the other's stop.
func TestJoin(t *testing.T) {
	t.Parallel()
	s := shop{pgtest.DB(t), pgtest.Redis(t)}
	a := Config{Name: "a", Key: []byte(key), Clients: 100, Connections: 40}
	first, firstApp, err := s.join(t, a, "one")
	require.NoError(t, err)

	b := Config{Name: "b", Key: []byte(other), Previous: [][]byte{[]byte(key)}, Clients: 200, Connections: 20}
	beside := shop{s.db, pgtest.Redis(t)}
	for name, refused := range map[string]struct {
		shop shop
		cfg  Config
		nats string
		want string
	}{
		"key":   {s, b, "one", "the logins that b signed are refused by a"},
		"Redis": {beside, Config{Name: "b", Key: []byte(key)}, "one", "Redis is not the same server for"},
		"NATS":  {s, Config{Name: "b", Key: []byte(key)}, "two", "NATS is not the same server for a and for b"},
	} {
		t.Run(name, func(t *testing.T) {
			_, app, err := refused.shop.join(t, refused.cfg, refused.nats)
			require.NoError(t, app.Stop(t.Context())) // it reports no longer
			if err == nil || !strings.Contains(err.Error(), refused.want) || !strings.Contains(err.Error(), "--nats-url") {
				t.Fatalf("refused with %v, want %q", err, refused.want)
			}
			require.Equal(t, "rows", pgtest.Read[int64](t, s.db, `SELECT count(*) FROM platform.instances`), 1) // the refused one has none
			coded, ok := errors.AsType[differsError](err)
			require.Equal(t, "exit code", ok && coded.ExitCode() == exitDiffers, true)
		})
	}

	b.Key, b.Previous = []byte(key), [][]byte{[]byte(other)}
	_, _, err = s.join(t, b, "one")
	require.NoError(t, err)
	sum, err := first.Sum(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the running instances", sum, Shop{Instances: 2, Clients: 300, Connections: 60})

	require.NoError(t, firstApp.Stop(t.Context()))
	_, _, err = s.join(t, Config{Name: "c", Key: []byte(other), Previous: [][]byte{[]byte(key)}}, "one")
	require.NoError(t, err)
}

// A difference that appears while instances run is found by each of them.
func TestRunningInstancesBeginToDiffer(t *testing.T) {
	t.Parallel()
	s := shop{pgtest.DB(t), pgtest.Redis(t)}
	var moved atomic.Bool
	a, _, err := s.join(t, Config{Name: "a", Key: []byte(key)}, "one")
	require.NoError(t, err)
	b, _, err := s.joinAt(t, Config{Name: "b", Key: []byte(key)}, func() string {
		if moved.Load() {
			return "two"
		}
		return "one"
	})
	require.NoError(t, err)
	found := func(r *Registry) string {
		all, err := r.Probe().Look(t.Context())
		require.NoError(t, err)
		return fmt.Sprint(all)
	}
	require.Equal(t, "differences", found(a)+found(b), "[][]")
	moved.Store(true)
	for _, r := range []*Registry{a, b} {
		pgtest.Eventually(t, 30*time.Second, func() bool {
			return found(r) == "[{NATS NATS is not the same server for a and for b}]"
		}, "the difference")
	}
}

// The row of an instance that was killed delays one that differs for as long as it counts;
// one that runs alone by the instance lock waits for none.
func TestKilledInstance(t *testing.T) {
	t.Parallel()
	s := shop{pgtest.DB(t), pgtest.Redis(t)}
	report := func(age time.Duration) {
		pgtest.Exec(t, s.db, `INSERT INTO platform.instances VALUES ($1, 'killed', 'x', '{x}', 'x', 'x', 1, 1, clock_timestamp() - $2::interval)
			ON CONFLICT (instance) DO UPDATE SET at = EXCLUDED.at`, strings.Repeat("0", 32), age)
	}
	report(0)
	alone, _, err := s.join(t, Config{Name: "a", Key: []byte(key), Clients: 10, Connections: 4, Alone: true}, "one")
	require.NoError(t, err)
	sum, err := alone.Sum(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the running instances", sum, Shop{Instances: 1, Clients: 10, Connections: 4})

	const left = 2 * time.Second
	began := time.Now()
	report(runsFor - left)
	_, _, err = s.join(t, Config{Name: "a", Key: []byte(key)}, "one")
	require.NoError(t, err)
	if waited := time.Since(began); waited < left/2 {
		t.Errorf("waited %s for the row of a killed instance that counts for %s", waited, left)
	}
}

// An instance that shares its stores with a part of those that run starts: they differ without it, and it may be the repair.
func TestRepairStartsBesideOneThatDiffers(t *testing.T) {
	t.Parallel()
	s := shop{pgtest.DB(t), pgtest.Redis(t)}
	_, _, err := s.join(t, Config{Name: "a", Key: []byte(key)}, "one")
	require.NoError(t, err)
	pgtest.Exec(t, s.db, `INSERT INTO platform.instances SELECT $1, 'odd', signs, accepts, 'another', 'two', 1, 1, clock_timestamp() FROM platform.instances`, strings.Repeat("0", 32))
	_, _, err = s.join(t, Config{Name: "b", Key: []byte(key)}, "one")
	require.NoError(t, err)
}

// While running instances differ, each finds the same.
func TestDifferences(t *testing.T) {
	t.Parallel()
	fits := func(name string) row {
		return row{Name: name, Signs: "k", Accepts: []string{"k"}, Redis: "r", Nats: "n"}
	}
	odd := fits("b")
	odd.Signs, odd.Accepts, odd.Redis, odd.Nats = "l", []string{"l", "k"}, "s", ""
	for name, c := range map[string]struct {
		running []row
		want    string
	}{
		"none":    {nil, "[]"},
		"all fit": {[]row{fits("a"), fits("b"), fits("c")}, "[]"},
		"one is odd": {[]row{fits("a"), odd, fits("c")}, "[{signing key the logins that b signed are refused by a, c} " +
			"{Redis Redis is not the same server for a, c and for b}]"},
	} {
		require.Equal(t, name, fmt.Sprint(differences(c.running)), c.want)
	}
}

// A Redis keeps its identity for all, and a Redis that was emptied gets a new one.
func TestRedisIdentity(t *testing.T) {
	t.Parallel()
	s := shop{pgtest.DB(t), pgtest.Redis(t)}
	r := &Registry{deps: Deps{Redis: s.rdb}}
	read := func() string {
		id, err := r.redisIdentity(t.Context())
		require.NoError(t, err)
		return id
	}
	first := read()
	require.Equal(t, "asked again", read(), first)
	require.NoError(t, s.rdb.Del(t.Context(), redisKey).Err())
	if again := read(); again == first || again == "" {
		t.Errorf("the identity of an emptied Redis is %q, which was %q", again, first)
	}

	// After a failover the old primary, which an instance may not have left, is another one.
	open := func() (redis.UniversalClient, string, string) {
		addr := redistest.Start(t).Addr
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = rdb.Close() })
		host, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		return rdb, host, port
	}
	primary, host, port := open()
	replica, _, _ := open()
	of := func(rdb redis.UniversalClient) string {
		id, _ := (&Registry{deps: Deps{Redis: rdb}}).redisIdentity(t.Context()) // fails until the replica has the word
		return id
	}
	require.NoError(t, replica.SlaveOf(t.Context(), host, port).Err())
	pgtest.Eventually(t, 30*time.Second, func() bool { return of(primary) != "" && of(replica) == of(primary) }, "the replica follows, and reads only")
	require.NoError(t, replica.SlaveOf(t.Context(), "NO", "ONE").Err())
	old, promoted := of(primary), of(replica)
	if word, _, _ := strings.Cut(promoted, " "); promoted == old || !strings.HasPrefix(old, word+" ") {
		t.Errorf("the promoted replica is %q, and its old primary %q", promoted, old)
	}
}
