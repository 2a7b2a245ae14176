// Package clock gives the process one notion of time: the Redis server's, kept
// as an offset to the local clock. Lua and SQL decide with their servers'
// own clocks; this one serves countdowns and cheap early refusals only.
package clock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Clock tells the time. Tests own it by giving another function.
type Clock interface{ Now() time.Time }

// System is the machine's clock.
type System struct{}

// Now is time.Now in UTC.
func (System) Now() time.Time { return time.Now().UTC() }

// Server is the Redis server's clock as this process last saw it. Safe for
// concurrent use.
type Server struct {
	offset atomic.Int64 // nanoseconds to add to the local clock
	rdb    redis.UniversalClient
}

// NewServer returns a clock that follows rdb's TIME once Run or Sample is
// called; until then it equals the machine's clock.
func NewServer(rdb redis.UniversalClient) *Server { return &Server{rdb: rdb} }

// Now is the Redis server's time, by estimate.
func (s *Server) Now() time.Time { return time.Now().Add(time.Duration(s.offset.Load())).UTC() }

// samplesPerRound is how often TIME is asked in one round; the answer with the
// shortest round trip carries the smallest error (half of it) and wins.
const samplesPerRound = 3

// Sample asks Redis once and takes over the offset. On error the last offset
// stays in force.
func (s *Server) Sample(ctx context.Context) error {
	best := time.Duration(1<<63 - 1)
	var offset time.Duration
	for range samplesPerRound {
		sent := time.Now()
		t, err := s.rdb.Time(ctx).Result()
		if err != nil {
			return err
		}
		trip := time.Since(sent)
		if trip < best {
			best, offset = trip, t.Sub(sent.Add(trip/2))
		}
	}
	s.offset.Store(int64(offset))
	return nil
}

// Run samples every second until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		_ = s.Sample(ctx) // the last offset stays in force; Redis's health is reported elsewhere
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
