package clock

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// remote is a Redis server that answers only TIME. The test sets its clock, its
// latency and its failures.
type remote struct {
	redis.UniversalClient
	mu    sync.Mutex
	ahead time.Duration // of the bubble's clock
	trip  time.Duration // one way
	err   error
	asked int
}

func (r *remote) set(change func(*remote)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *remote) Time(ctx context.Context) *redis.TimeCmd {
	r.mu.Lock()
	ahead, trip, err := r.ahead, r.trip, r.err
	r.asked++
	r.mu.Unlock()
	cmd := redis.NewTimeCmd(ctx)
	way := func() bool {
		select {
		case <-time.After(trip):
			return true
		case <-ctx.Done():
			cmd.SetErr(ctx.Err())
			return false
		}
	}
	if !way() {
		return cmd
	}
	told := time.Now().Add(ahead)
	if !way() {
		return cmd
	}
	cmd.SetVal(told)
	cmd.SetErr(err)
	return cmd
}

// off is the clock's distance from the remote's, which the test knows exactly.
func (r *remote) off(s *Server) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.Now().Sub(time.Now().Add(r.ahead)).Abs()
}

// pass advances the time of a bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the bubble's clock
}

func within(t *testing.T, r *remote, s *Server, most time.Duration, when string) {
	t.Helper()
	if off := r.off(s); off > most {
		t.Errorf("%s: the clock is %s off, want at most %s", when, off, most)
	}
}

func sample(t *testing.T, s *Server) {
	t.Helper()
	require.NoError(t, s.Sample(t.Context()))
}

// A machine that is ten minutes off, in either direction, has the server's time
// after its first sample, and logs once that its clock is off.
func TestAMachineTenMinutesOff(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			r := &remote{trip: time.Millisecond}
			s := NewServer(r, slog.New(slog.NewTextHandler(&log, nil)))
			s.Local = func() time.Time { return time.Now().Add(wrong) }
			for range 3 {
				sample(t, s)
			}
			within(t, r, s, time.Millisecond, name)
			if offset, age := s.Offset(); (offset+wrong).Abs() > time.Millisecond || age > time.Second {
				t.Errorf("%s: offset %s, age %s", name, offset, age)
			}
			require.Equal(t, name+": logged", strings.Count(log.String(), "clock differs"), 1)
			s.Local = time.Now
			sample(t, s)
			require.Contains(t, name+": the log, when the clock is right again", log.String(), "agrees")
		})
	}
}

// Without Redis the clock runs on; when Redis is back with a different clock,
// the process follows it within a second.
func TestRedisAwayAndBackWithAnotherClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &remote{trip: time.Millisecond, ahead: 3 * time.Second}
		s := NewServer(r, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		pass(100 * time.Millisecond)
		within(t, r, s, time.Millisecond, "at first")

		r.set(func(r *remote) { r.err = errors.New("gone") })
		pass(time.Hour)
		within(t, r, s, time.Millisecond, "after an hour without Redis")
		require.Equal(t, "a sample without Redis succeeds", s.Sample(t.Context()) == nil, false)
		if _, age := s.Offset(); age < time.Hour {
			t.Errorf("the age of the estimate is %s after an hour", age)
		}

		r.set(func(r *remote) { r.err, r.ahead = nil, -7*time.Second })
		pass(1100 * time.Millisecond)
		within(t, r, s, time.Millisecond, "a second after another clock took over")
		var before, after int
		r.set(func(r *remote) { before = r.asked })
		pass(10 * time.Second)
		r.set(func(r *remote) { after = r.asked })
		require.Equal(t, "queries of Redis in 10 s", after-before, 10*samplesPerRound)
		cancel()
		require.NoError(t, <-done)
	})
}

// A slow sample that agrees does not spoil a good estimate; one that proves the
// clock wrong is better than none; one that is too slow is rejected.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &remote{trip: 500 * time.Microsecond}
		s := NewServer(r, slog.New(slog.DiscardHandler))
		sample(t, s)
		good := s.fix.Load()
		r.set(func(r *remote) { r.trip = 100 * time.Millisecond })
		sample(t, s)
		require.Equal(t, "a slow answer replaced a good one", s.fix.Load() == good, true)
		r.set(func(r *remote) { r.ahead = time.Minute })
		sample(t, s)
		within(t, r, s, 100*time.Millisecond, "after a slow answer of another clock")

		r.set(func(r *remote) { r.ahead, r.trip = time.Hour, maxTrip })
		began := time.Now()
		require.Equal(t, "an answer slower than the tolerance is accepted", s.Sample(t.Context()) == nil, false)
		if took := time.Since(began); took > maxTrip {
			t.Errorf("a sample took %s", took)
		}
		// The estimate's error grows by at most 500 ppm, so that the slow
		// samples of a Redis that stays slow are accepted eventually.
		r.set(func(r *remote) { r.trip, r.ahead = 40*time.Millisecond, time.Minute+60*time.Millisecond })
		pass(10 * time.Minute)
		sample(t, s)
		within(t, r, s, 40*time.Millisecond, "ten minutes later")
	})
}

// The machine's wall clock does not matter between two samples: an estimate
// made of monotonic readings does not move when the wall clock is set.
func TestTheWallClockDoesNotMatter(t *testing.T) {
	t.Parallel()
	s := NewServer(pgtest.Redis(t), slog.New(slog.DiscardHandler))
	sample(t, s)
	f := s.fix.Load()
	require.Contains(t, "the fix, with a monotonic reading, so that setting the clock does not move it", f.local.String(), " m=")
	before := s.Now()
	redisTime, err := s.rdb.Time(t.Context()).Result()
	require.NoError(t, err)
	if after := s.Now(); redisTime.Before(before.Add(-time.Second)) || redisTime.After(after.Add(time.Second)) {
		t.Errorf("%s to %s, and Redis says %s", before, after, redisTime)
	}
}

func TestClusterIsAskedAtOneNode(t *testing.T) {
	t.Parallel()
	asks := map[time.Time]int{}
	at := map[string]time.Time{"127.0.0.1:1": time.Unix(60, 0), "127.0.0.1:2": time.Unix(120, 0)}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:2"}}},
			}, nil
		},
		NewClient: func(o *redis.Options) *redis.Client {
			node := redis.NewClient(o)
			node.AddHook(redistest.Around(func(_ context.Context, cmds []redis.Cmder, _ func() error) error {
				if answer, ok := cmds[0].(*redis.TimeCmd); ok {
					answer.SetVal(at[o.Addr])
					asks[at[o.Addr]]++
				}
				return nil
			}))
			return node
		},
	})
	t.Cleanup(func() { _ = cluster.Close() })
	s := NewServer(cluster, slog.New(slog.DiscardHandler))
	for range 20 {
		require.NoError(t, s.Sample(t.Context()))
	}
	require.Equal(t, "nodes of 20 samples", len(asks), 1)
}
