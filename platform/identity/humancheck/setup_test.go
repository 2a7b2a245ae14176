package humancheck

import (
	"errors"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"stampede/platform/base/config"
	"stampede/platform/base/fault"
	_ "stampede/platform/store/redisx" // keeps the client from printing when Redis is down
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

var testKey = []byte("6f1c0a92d8e54b7391aa02c4f1e0d9b8")

// handClock is a clock that a test advances.
type handClock struct{ offset atomic.Int64 }

func (c *handClock) Now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *handClock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// bundle is one instance of the service with its dependencies.
type bundle struct {
	*Service
	t     *testing.T
	redis *redis.Client
	clock *handClock
	reg   *prometheus.Registry
}

// quick is a configuration with fast proofs of work and few pictures, because
// drawing is slow under the race detector.
func quick() Config {
	cfg := NewConfig(config.Defaults[Settings](), "")
	cfg.Difficulty, cfg.Pictures = MinDifficulty, 1
	return cfg
}

func setup(t *testing.T, change ...func(*Config, *Deps)) *bundle {
	t.Helper()
	b := &bundle{t: t, redis: pgtest.Redis(t), clock: new(handClock)}
	return b.another(change...)
}

// another is a second instance with the same Redis and clock.
func (b *bundle) another(change ...func(*Config, *Deps)) *bundle {
	b.t.Helper()
	o := &bundle{t: b.t, redis: b.redis, clock: b.clock, reg: prometheus.NewRegistry()}
	cfg, deps := quick(), Deps{
		Redis: b.redis, Clock: b.clock, Log: slog.New(slog.DiscardHandler), Metrics: o.reg, SigningKeys: [][]byte{testKey},
	}
	for _, f := range change {
		f(&cfg, &deps)
	}
	o.Service = New(cfg, deps)
	o.album.patience = time.Minute // drawing takes long on a busy machine
	return o
}

// run runs the service's workers until the test ends.
func (b *bundle) run() {
	for _, w := range b.Workers() {
		pgtest.Work(b.t, w.Run)
	}
}

func (b *bundle) challenge(kind Kind, sub Subject) Challenge {
	b.t.Helper()
	c, err := b.Challenge(b.t.Context(), kind, sub)
	require.NoError(b.t, err)
	return c
}

// solve solves a proof of work.
func (b *bundle) solve(c Challenge) string {
	b.t.Helper()
	if c.Kind != Pow {
		b.t.Fatalf("a challenge of kind %s is no proof of work", c.Kind)
	}
	text, err := Solve(b.t.Context(), c.Challenge, c.Difficulty)
	require.NoError(b.t, err)
	return text
}

func (b *bundle) check(kind Kind, sub Subject, solution string) error {
	return b.Check(b.t.Context(), kind, sub, solution)
}

// wants checks a solution and reports another outcome than the test wants.
func (b *bundle) wants(t *testing.T, kind Kind, sub Subject, solution, want, what string) {
	t.Helper()
	if got := outcome(b.check(kind, sub, solution)); got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// count reads one series of the results.
func (b *bundle) count(kind Kind, result string) int {
	return int(testutil.ToFloat64(b.metrics.checks.WithLabelValues(string(kind), result)))
}

// stored returns all keys in Redis, so that a test can check what was not stored.
func (b *bundle) stored() []string {
	b.t.Helper()
	names, err := b.redis.Keys(b.t.Context(), "*").Result()
	require.NoError(b.t, err)
	return names
}

// outcome renders a check's result: "ok", a code, or a code and its reason.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	f := fault.From(err)
	if reason, ok := f.Fields["reason"].(string); ok {
		return f.Code + " " + reason
	}
	return f.Code
}

// rush is the subject of a rush path; guest is the subject of a login.
func rush(user, item int64) Subject {
	return Subject{Purpose: PurposeRush, User: user, Item: item, Path: "/api/v1/things/" + strconv.FormatInt(item, 10) + "/challenge", Address: netip.MustParseAddr("203.0.113.7")}
}

func guest(purpose, address string) Subject {
	return Subject{Purpose: purpose, Address: netip.MustParseAddr(address)}
}

// dead is a Redis client without a reachable server.
func dead(t *testing.T) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialTimeout: 100 * time.Millisecond, DialerRetries: 1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// parts splits a solution into ticket and number.
func parts(t *testing.T, solution string) (ticket, number string) {
	t.Helper()
	_, rest, _ := strings.Cut(solution, ":")
	ticket, number, ok := strings.Cut(rest, ".")
	if !ok {
		t.Fatalf("%q is not a solution", solution)
	}
	return ticket, number
}

var errTest = errors.New("test")
