// Package clock gives the process one notion of time: the Redis server's. Lua
// and SQL decide by their servers' clocks; this one serves countdowns, the
// lifetime of paths and tokens, and cheap early refusals.
//
// The machine's own clock may be wrong by any amount and may be set at any
// moment; nothing here depends on it. [Server] knows the time Redis reported at
// one instant and adds what the monotonic clock has measured since.
package clock

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
)

// Clock tells the time. Tests control it by passing their own function.
type Clock interface{ Now() time.Time }

// System is the machine's clock.
type System struct{}

// Now is time.Now in UTC.
func (System) Now() time.Time { return time.Now().UTC() }

const (
	// sampleEvery is how often Redis is queried: a clock change on its server
	// is followed within a second, the tolerance of every local decision.
	sampleEvery = time.Second
	// samplesPerRound is how many times one round calls TIME at most; the answer with
	// the shortest round trip carries the smallest error (half of it) and wins.
	samplesPerRound = 3
	// shortTrip is a round trip after which one round asks no more: half a millisecond of
	// error is nothing beside the second that local decisions tolerate.
	shortTrip = time.Millisecond
	// maxTrip is the longest round trip that is accepted. Such a sample may be
	// off by half of it, which is the second that local decisions tolerate.
	maxTrip = 2 * time.Second
	// drift is how far two clocks may run apart, in parts per million: NTP's
	// assumption for the worst oscillator.
	drift = 500
	// clockKey is no key: its slot chooses the node of a cluster that tells the
	// time.
	clockKey = "clock"
	// noticeable is how far the machine's clock may be from Redis's before it
	// is logged: beyond this, the timestamps of log lines and of other programs
	// mislead.
	noticeable = time.Second
)

// Server is the Redis server's clock as this process last saw it. Safe for
// concurrent use. Now costs a pointer load and a reading of the monotonic clock.
type Server struct {
	// Local is the machine's clock, time.Now unless a test has another. Set it
	// before the first use.
	Local func() time.Time

	log  *slog.Logger
	rdb  redis.UniversalClient
	fix  atomic.Pointer[fix]
	told atomic.Bool // set once the log has said that the machine's clock is off
}

// fix is one sample: at the instant local, Redis's clock showed server, give or
// take err.
type fix struct {
	local, server time.Time
	err           time.Duration
}

// at extrapolates the server's clock to a local instant. If local has a
// monotonic reading, as time.Now gives, setting the machine's clock has no
// effect.
func (f *fix) at(local time.Time) time.Time { return f.server.Add(local.Sub(f.local)) }

// errAt bounds the error of at: the sample's initial error plus the drift since.
func (f *fix) errAt(local time.Time) time.Duration {
	return f.err + max(0, local.Sub(f.local))/1_000_000*drift
}

// NewServer returns a clock that follows rdb's TIME once Run or Sample is
// called; until then it equals the machine's clock. It logs when the machine's
// clock is off, and when it is right again.
func NewServer(rdb redis.UniversalClient, log *slog.Logger) *Server {
	return &Server{rdb: rdb, Local: time.Now, log: log}
}

// Now returns the estimated time of the Redis server. It may step back by the
// error of the estimate.
func (s *Server) Now() time.Time {
	now := s.Local()
	if f := s.fix.Load(); f != nil {
		now = f.at(now)
	}
	return now.UTC()
}

// Offset is the Redis server's clock minus the machine's; 0 before the first
// answer. Age is the time since the last accepted sample.
func (s *Server) Offset() (offset, age time.Duration) {
	f, now := s.fix.Load(), s.Local()
	if f == nil {
		return 0, 0
	}
	// Round drops the monotonic readings, so that the wall clocks are compared.
	return f.at(now).Round(0).Sub(now.Round(0)), now.Sub(f.local)
}

// Sample queries Redis a few times and adopts its clock if the sample improves
// on the current estimate. On error, the current estimate stays in force.
func (s *Server) Sample(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxTrip)
	defer cancel()
	var best *fix
	for range samplesPerRound {
		sent := s.Local()
		t, err := RedisTime(ctx, s.rdb)
		if err != nil {
			if best != nil {
				break // an earlier answer is still valid
			}
			return fmt.Errorf("clock: query Redis for its time: %w", err)
		}
		trip := s.Local().Sub(sent)
		if f := (&fix{local: sent.Add(trip / 2), server: t, err: trip / 2}); best == nil || f.err < best.err {
			best = f
		}
		if trip < shortTrip {
			break
		}
	}
	if best.err > maxTrip/2 {
		return fmt.Errorf("clock: Redis took %s to tell its time, more than %s", 2*best.err, maxTrip)
	}
	s.consider(best)
	s.notice(ctx)
	return nil
}

// RedisTime queries Redis for its time. In a cluster it asks one node always, the
// primary of clockKey's slot: the client asks any node, and with nodes whose clocks
// differ the time would jump from call to call.
func RedisTime(ctx context.Context, rdb redis.UniversalClient) (time.Time, error) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return rdb.Time(ctx).Result()
	}
	node, err := cluster.MasterForKey(ctx, clockKey)
	if err != nil {
		return time.Time{}, err
	}
	return node.Time(ctx).Result()
}

// consider adopts a sample that is at least as exact as the current estimate,
// or that contradicts it: then Redis's clock was set, another server has taken
// over, or the machine has slept. A slow sample that agrees adds nothing and
// would only make the estimate worse.
func (s *Server) consider(next *fix) {
	if known := s.fix.Load(); known != nil {
		had := known.errAt(next.local)
		if apart := next.server.Sub(known.at(next.local)).Abs(); next.err > had && apart <= next.err+had {
			return
		}
	}
	s.fix.Store(next)
}

// notice logs once when the machine's clock is found to be off, and once when
// it is right again.
func (s *Server) notice(ctx context.Context) {
	offset, _ := s.Offset()
	off := offset.Abs() > noticeable
	if s.told.Swap(off) == off {
		return
	}
	if off {
		s.log.WarnContext(ctx, "this machine's clock differs from the Redis server's, which times the sale", "offset", offset)
		return
	}
	s.log.InfoContext(ctx, "this machine's clock agrees with the Redis server's again", "offset", offset)
}

// Run samples every second until ctx ends. Without Redis the clock continues
// from its last estimate; Redis's health is reported elsewhere.
func (s *Server) Run(ctx context.Context) error {
	return app.Loop{Every: sampleEvery, Do: func(ctx context.Context) error {
		if err := s.Sample(ctx); err != nil && ctx.Err() == nil {
			s.log.DebugContext(ctx, "clock sample failed", "error", err)
		}
		return nil
	}}.Run(ctx)
}

var (
	offsetDesc = prometheus.NewDesc("stampede_clock_offset_seconds",
		"The Redis server's clock, which times the sale, minus this machine's.", nil, nil)
	ageDesc = prometheus.NewDesc("stampede_clock_sample_age_seconds",
		"Time since the last accepted sample of the Redis server's clock; it rises while Redis does not answer or answers slowly.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) { ch <- offsetDesc; ch <- ageDesc }

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	offset, age := s.Offset()
	ch <- prometheus.MustNewConstMetric(offsetDesc, prometheus.GaugeValue, offset.Seconds())
	ch <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, age.Seconds())
}
