package ratelimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"stampede/platform/base/fault"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func limiter(t testing.TB, rdb redis.UniversalClient) *ratelimit.Limiter {
	t.Helper()
	return ratelimit.New(rdb, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

func take(t testing.TB, l *ratelimit.Limiter, asks ...ratelimit.Ask) ratelimit.Decision {
	t.Helper()
	d, err := l.Take(context.Background(), asks...)
	require.NoError(t, err)
	return d
}

// bucket is the model: a level in microseconds that refills over time.
type bucket struct{ level, cost, full, seen int64 }

func (b *bucket) at(now int64) int64 {
	b.level = min(b.full, b.level+now-b.seen)
	b.seen = now
	return b.level
}

// For any asks and any passage of time, take.lua agrees with a model that counts one
// bucket per rule and subject in a different way; refused by one rule, a composite
// costs nothing at the others.
func TestTheScriptIsABucketForEachRule(t *testing.T) {
	t.Parallel()
	l := limiter(t, pgtest.Redis(t))
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		rules := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) ratelimit.Rule {
			return ratelimit.Rule{
				Count: rapid.IntRange(1, 6).Draw(rt, "count"),
				// Keys expire by the real clock, whatever the script's time:
				// intervals of half a minute outlast the test.
				Per: time.Duration(rapid.IntRange(180, 7200).Draw(rt, "per")) * time.Second,
			}
		}), 1, 3).Draw(rt, "rules")
		now := time.Now().Add(time.Hour).UnixMicro()
		model := make([][2]*bucket, len(rules))
		for i, r := range rules {
			rules[i].Name = "r" + string(rune('a'+i))
			cost := r.Interval().Microseconds()
			for s := range model[i] {
				model[i][s] = &bucket{cost * int64(r.Count), cost, cost * int64(r.Count), now}
			}
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			now += rapid.Int64Range(0, 2_000_000_000).Draw(rt, "passes")
			var asks []ratelimit.Ask
			var asked []*bucket
			for i, r := range rules {
				s := rapid.IntRange(0, 2).Draw(rt, "subject")
				if s == 2 {
					continue // not part of this take
				}
				asks = append(asks, ratelimit.Ask{Rule: r, Key: string(rune('0'+s)) + "/" + time.Duration(round).String()})
				asked = append(asked, model[i][s])
			}
			if len(asks) == 0 {
				continue
			}
			want := true
			for _, b := range asked {
				want = b.at(now) >= b.cost && want
			}
			ahead, taken, err := l.TakeAt(now, asks...)
			if err != nil || taken != want {
				rt.Fatalf("%v: %v, %v; the model says %v", asks, taken, err, want)
			}
			for i, b := range asked {
				if want {
					b.level -= b.cost
				}
				if got := ahead[i].Microseconds(); got != b.full-b.level {
					rt.Fatalf("%v: %d µs to be full again, the model says %d", asks[i], got, b.full-b.level)
				}
			}
		}
	})
}

var fiveInAnHour = ratelimit.Rule{Name: "test", Count: 5, Per: time.Hour}

// counting counts the commands of a client that reach Redis.
func counting(rdb *redis.Client) *atomic.Int64 {
	n := new(atomic.Int64)
	rdb.AddHook(redistest.Around(func(_ context.Context, cmds []redis.Cmder, next func() error) error {
		if len(cmds) == 1 { // not what a new connection sends
			n.Add(1)
		}
		return next()
	}))
	return n
}

func TestAFloodDoesNotReachRedis(t *testing.T) {
	t.Parallel()
	rdb := pgtest.Redis(t)
	elsewhere, here := limiter(t, rdb), limiter(t, rdb)
	ask := ratelimit.Ask{Rule: fiveInAnHour, Key: "u:1"}
	for range 5 {
		take(t, elsewhere, ask) // so that only Redis knows it
	}
	calls := counting(rdb)
	for range 1000 {
		require.Equal(t, "more than five across both are allowed", take(t, here, ask).Allowed, false)
	}
	if n := calls.Load(); n > 2 { // one, and another when the script was not loaded yet
		t.Errorf("%d calls reached Redis, want one", n)
	}
}

func TestAnInstanceThatIsAloneKeepsShortRulesToItself(t *testing.T) {
	t.Parallel()
	rdb := pgtest.Redis(t)
	l := limiter(t, rdb)
	l.SingleInstance = true
	calls := counting(rdb)
	short := ratelimit.Ask{Rule: ratelimit.Rule{Name: "short", Count: 5, Per: time.Minute}, Key: "u:1"}
	allowed := 0
	for range 10 {
		if take(t, l, short).Allowed {
			allowed++
		}
	}
	if n := calls.Load(); allowed != 5 || n != 0 {
		t.Errorf("%d allowed with %d calls to Redis; want 5 with none", allowed, n)
	}
	if d := take(t, l, ratelimit.Ask{Rule: short.Rule, Key: "u:2"}, ratelimit.Ask{Rule: fiveInAnHour, Key: "u:2"}); !d.Allowed || calls.Load() == 0 {
		t.Error("a rule of an hour was not taken from Redis")
	}
}

// Each of several instances gives a subject the first in a window without asking Redis, which decides about the rest.
func TestInstancesLendTheFirst(t *testing.T) {
	t.Parallel()
	rdb := pgtest.Redis(t)
	a, b := limiter(t, rdb), limiter(t, rdb)
	rule := ratelimit.Rule{Name: "short", Count: 3, Per: time.Minute, FirstHere: true}
	ask := ratelimit.Ask{Rule: rule, Key: "u:1"}
	for i, c := range []struct {
		at        *ratelimit.Limiter
		allowed   bool
		remaining int
		keys      int64 // in Redis afterwards
	}{{a, true, 2, 0}, {a, true, 1, 1}, {a, true, 0, 1}, {a, false, 0, 1}, {b, true, 2, 1}, {b, false, 0, 1}, {a, false, 0, 1}} {
		look := c.at.Look(ask)
		require.Equal(t, fmt.Sprintf("what Look says before take %d", i+1), look.Allowed, c.allowed || i == 5) // b has not heard of a's
		if !look.Allowed && (look.Rule != rule || look.Retry < 25*time.Second) {                               // Redis gives two a minute
			t.Errorf("before take %d: %+v", i+1, look)
		}
		d := take(t, c.at, ask)
		if d.Allowed != c.allowed || d.Remaining != c.remaining || d.Rule != rule || (d.Retry > 0) == c.allowed {
			t.Errorf("take %d: %+v, want allowed %v with %d remaining", i+1, d, c.allowed, c.remaining)
		}
		require.Equal(t, fmt.Sprintf("keys in Redis after take %d", i+1), rdb.DBSize(t.Context()).Val(), c.keys)
	}
	take(t, a, ratelimit.Ask{Rule: rule, Key: "u:2"}, ratelimit.Ask{Rule: ratelimit.Rule{Name: "other", Count: 3, Per: time.Minute}, Key: "u:2"})
	require.Equal(t, "keys in Redis after a take of two rules", rdb.DBSize(t.Context()).Val(), 3)
	exact := rule
	exact.FirstHere = false
	take(t, a, ratelimit.Ask{Rule: exact, Key: "u:3"})
	require.Equal(t, "keys in Redis after a take of a rule that is exact", rdb.DBSize(t.Context()).Val(), 4)
	a.Await(rule.Per)
	require.Equal(t, "the first of the next window", take(t, a, ask).Remaining, 2)
}

func TestRefusedByOneTheOthersKeepTheirs(t *testing.T) {
	t.Parallel()
	l := limiter(t, pgtest.Redis(t))
	once := ratelimit.Ask{Rule: ratelimit.Rule{Name: "once", Count: 1, Per: time.Hour}, Key: "a:203.0.113.7"}
	often := ratelimit.Ask{Rule: fiveInAnHour, Key: "u:1"}
	if d := take(t, l, often, once); !d.Allowed || d.Rule.Name != "once" || d.Remaining != 0 {
		t.Fatalf("%+v", d)
	}
	for range 20 {
		if d := take(t, l, often, once); d.Allowed || d.Rule.Name != "once" {
			t.Fatalf("%+v", d)
		}
	}
	if d := take(t, l, often); !d.Allowed || d.Remaining != 3 {
		t.Errorf("after one take and refusals: %+v, want 3 left", d)
	}
}

func TestLookTakesNothing(t *testing.T) {
	t.Parallel()
	l := limiter(t, pgtest.Redis(t))
	ask := ratelimit.Ask{Rule: fiveInAnHour, Key: "u:1"}
	for range 20 {
		if d := l.Look(ask); !d.Allowed || d.Remaining != 5 {
			t.Fatalf("%+v", d)
		}
	}
	for range 5 {
		take(t, l, ask)
	}
	if d := l.Look(ask); d.Allowed || d.Err() == nil {
		t.Errorf("after five: %+v", d)
	}
	l.Await(fiveInAnHour.Interval())
	require.Equal(t, "allowed after an interval", l.Look(ask).Allowed, true)
}

// hanging accepts connections and never answers.
func hanging(t *testing.T) redis.UniversalClient {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	rdb := redis.NewClient(&redis.Options{Addr: ln.Addr().String(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestWhileRedisHangsTheInstanceDecidesAlone(t *testing.T) {
	t.Parallel()
	l := limiter(t, hanging(t))
	began := time.Now()
	allowed := 0
	for range 200 {
		if take(t, l, ratelimit.Ask{Rule: fiveInAnHour, Key: "u:1"}).Allowed {
			allowed++
		}
	}
	require.Equal(t, "allowed takes", allowed, 5)
	// Redis is called until one timeout of 250 ms is over; if each take waited for
	// that, it would take 50 seconds.
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("200 takes waited %s for a Redis that hangs", took)
	}
}

func TestATakeEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	l := limiter(t, hanging(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Take(ctx, ratelimit.Ask{Rule: fiveInAnHour, Key: "u:1"})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "what is left after a failed take", l.Look(ratelimit.Ask{Rule: fiveInAnHour, Key: "u:1"}).Remaining, 5)
}

func TestKeysEndWhenTheQuotaIsFull(t *testing.T) {
	t.Parallel()
	rdb := pgtest.Redis(t)
	l := limiter(t, rdb)
	take(t, l, ratelimit.Ask{Rule: fiveInAnHour, Key: "p:13800138000"})
	keys, err := rdb.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	if ttl := rdb.PTTL(t.Context(), keys[0]).Val(); ttl <= 0 || ttl > fiveInAnHour.Interval() {
		t.Errorf("the key lives on for %s, want up to %s", ttl, fiveInAnHour.Interval())
	}
	if want := "limit:{limits}:"; len(keys[0]) != len(want)+20 || keys[0][:len(want)] != want {
		t.Errorf("the key %q, want a hash after %s", keys[0], want)
	}
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"203.0.113.7": "a:203.0.113.7", "::ffff:203.0.113.7": "a:203.0.113.7",
		"2001:db8:1:2:3:4:5:6": "a:2001:db8:1:2::/64", "2001:db8:1:2:ffff::1": "a:2001:db8:1:2::/64",
		"2001:db8:1:3::1": "a:2001:db8:1:3::/64", "fe80::1%eth0": "a:fe80::/64",
	} {
		require.Equal(t, addr, ratelimit.AddrKey(netip.MustParseAddr(addr)), want)
	}
	require.Equal(t, "an unknown address", ratelimit.AddrKey(netip.Addr{}), "a:unknown")
}

func TestARefusalSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	l := limiter(t, nil)
	ask := ratelimit.Ask{Rule: ratelimit.Rule{Name: "rush-path", Count: 5, Per: time.Minute}, Key: "u:1"}
	address := ratelimit.Ask{Rule: ratelimit.Rule{Name: "rush-path-address", Count: 100, Per: time.Second}, Key: "a:203.0.113.7"}
	off := ratelimit.Ask{Rule: ratelimit.Rule{Name: "off"}, Key: "u:1"}
	var d ratelimit.Decision
	for range 6 {
		d = take(t, l, ask, off, address)
	}
	f := fault.From(d.Err())
	if f.Kind != fault.TooMany || f.Code != "rate-limited" || f.RetryAfter <= 11*time.Second || f.RetryAfter > 12*time.Second {
		t.Errorf("%+v", f)
	}
	require.Equal(t, "the detail", f.Detail[0], "This is allowed 5 times in 1m; Retry-After says when to retry.")
	h := http.Header{}
	d.Header(h)
	require.Equal(t, "RateLimit-Policy", h.Get("RateLimit-Policy"), `"rush-path";q=5;w=60, "rush-path-address";q=100;w=1`)
	require.Equal(t, "RateLimit", h.Get("RateLimit"), `"rush-path";r=0;t=60`)
}

func TestWrongRulesAreErrors(t *testing.T) {
	t.Parallel()
	l := limiter(t, nil)
	for _, r := range []ratelimit.Rule{
		{Name: "", Count: 1, Per: time.Second},
		{Name: "Upper", Count: 1, Per: time.Second},
		{Name: "no-window", Count: 1},
		{Name: "years", Count: 1, Per: 10_000 * time.Hour},
		{Name: "too-fast", Count: 10, Per: time.Microsecond},
	} {
		if _, err := l.Take(t.Context(), ratelimit.Ask{Rule: r, Key: "x"}); err == nil {
			t.Errorf("%+v was accepted", r)
		}
	}
	require.Equal(t, "a take without rules is allowed", take(t, l).Allowed, true)
}

// BenchmarkTake measures one Take of two rules: answered by Redis, and refused from
// memory.
func BenchmarkTake(b *testing.B) {
	rdb := pgtest.Redis(b)
	address := ratelimit.Ask{Rule: ratelimit.Rule{Name: "address", Count: 1 << 30, Per: time.Hour}, Key: "a:203.0.113.7"}
	b.Run("redis", func(b *testing.B) {
		l := limiter(b, rdb)
		var user atomic.Int64
		b.ReportAllocs()
		b.SetParallelism(64) // requests wait for Redis together
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				take(b, l, ratelimit.Ask{Rule: fiveInAnHour, Key: ratelimit.UserKey(user.Add(1))}, address)
			}
		})
	})
	b.Run("memory", func(b *testing.B) {
		l := limiter(b, rdb)
		ask := ratelimit.Ask{Rule: fiveInAnHour, Key: "flood"}
		for range 6 {
			take(b, l, ask)
		}
		b.ReportAllocs()
		for b.Loop() {
			take(b, l, ask)
		}
	})
}
