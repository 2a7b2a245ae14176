package clock

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
)

const (
	// sampleEvery is how often Redis is asked: a clock that was set over there is
	// followed within a second, the tolerance of every local decision.
	sampleEvery = time.Second
	// samplesPerRound is how often TIME is asked in one round; the answer with the
	// shortest round trip carries the smallest error (half of it) and wins.
	samplesPerRound = 3
	// maxTrip is the longest round trip that is believed. What it says may be wrong
	// by half of that, which is the second that local decisions tolerate.
	maxTrip = 2 * time.Second
	// drift is how far two clocks may run apart, in parts per million: what NTP
	// takes for the worst oscillator.
	drift = 500
	// noticeable is how far the machine's clock may be from Redis's before the log
	// says so: further off, its other programs and its log lines mislead.
	noticeable = time.Second
)

// Server is the Redis server's clock as this process last saw it. Safe for
// concurrent use. Now costs a pointer and a reading of the monotonic clock.
type Server struct {
	// Local is the machine's clock, time.Now unless a test has another. Set it
	// before the first use.
	Local func() time.Time

	log  *slog.Logger
	rdb  redis.UniversalClient
	fix  atomic.Pointer[fix]
	told atomic.Bool // that the machine's clock is off
}

// fix is one answer of Redis: at the instant local, its clock showed server, give
// or take err.
type fix struct {
	local, server time.Time
	err           time.Duration
}

// at extrapolates the server's clock to a local instant. Where local has a
// monotonic reading, as time.Now gives, setting the machine's clock moves
// nothing.
func (f *fix) at(local time.Time) time.Time { return f.server.Add(local.Sub(f.local)) }

// errAt is how far at may be wrong: by what it was wrong from the beginning, and
// by what the clocks have run apart since.
func (f *fix) errAt(local time.Time) time.Duration {
	return f.err + max(0, local.Sub(f.local))/1_000_000*drift
}

// NewServer returns a clock that follows rdb's TIME once Run or Sample is
// called; until then it equals the machine's clock. The log says when the
// machine's clock is off, and when it is right again.
func NewServer(rdb redis.UniversalClient, log *slog.Logger) *Server {
	return &Server{rdb: rdb, Local: time.Now, log: log}
}

// Now is the Redis server's time, by estimate. It may step back by as much as the
// estimate was wrong.
func (s *Server) Now() time.Time {
	now := s.Local()
	if f := s.fix.Load(); f != nil {
		now = f.at(now)
	}
	return now.UTC()
}

// Offset is the Redis server's clock minus the machine's; 0 before the first
// answer. Age is how long ago Redis was last believed.
func (s *Server) Offset() (offset, age time.Duration) {
	f, now := s.fix.Load(), s.Local()
	if f == nil {
		return 0, 0
	}
	// Round drops the monotonic readings, so that the clocks on the wall are compared.
	return f.at(now).Round(0).Sub(now.Round(0)), now.Sub(f.local)
}

// Sample asks Redis a few times and takes over its clock if the answer tells more
// than what is known. On error, what is known stays in force and runs on.
func (s *Server) Sample(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxTrip)
	defer cancel()
	var best *fix
	for range samplesPerRound {
		sent := s.Local()
		t, err := s.rdb.Time(ctx).Result()
		if err != nil {
			if best != nil {
				break // an answer that came is as good as it was
			}
			return fmt.Errorf("clock: ask Redis for its time: %w", err)
		}
		trip := s.Local().Sub(sent)
		if f := (&fix{local: sent.Add(trip / 2), server: t, err: trip / 2}); best == nil || f.err < best.err {
			best = f
		}
	}
	if best.err > maxTrip/2 {
		return fmt.Errorf("clock: Redis took %s to tell its time, more than %s", 2*best.err, maxTrip)
	}
	s.consider(best)
	s.notice(ctx)
	return nil
}

// consider takes over an answer that is at least as exact as what is known, or
// that contradicts it: then Redis's clock was set, another server has taken over,
// or the machine has slept. A slow answer that agrees tells nothing new, and
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

// notice tells the log once when the machine's clock is found to be off, and once
// when it is right again.
func (s *Server) notice(ctx context.Context) {
	offset, _ := s.Offset()
	off := offset.Abs() > noticeable
	if s.told.Swap(off) == off {
		return
	}
	if off {
		s.log.WarnContext(ctx, "this machine's clock differs from the Redis server's, which the sale goes by", "offset", offset)
		return
	}
	s.log.InfoContext(ctx, "this machine's clock agrees with the Redis server's again", "offset", offset)
}

// Run samples every second until ctx ends. Without Redis the clock runs on from
// what it knew; Redis's health is reported elsewhere.
func (s *Server) Run(ctx context.Context) error {
	return app.Loop{Every: sampleEvery, Do: func(ctx context.Context) error {
		if err := s.Sample(ctx); err != nil && ctx.Err() == nil {
			s.log.DebugContext(ctx, "time not sampled", "error", err)
		}
		return nil
	}}.Run(ctx)
}
