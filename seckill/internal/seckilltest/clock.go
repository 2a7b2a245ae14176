package seckilltest

import (
	"log/slog"
	"sync/atomic"
	"time"

	"stampede/platform/base/clock"
)

// Clock is an instance's clock: the machine's time plus what the test has
// added. The zero value is ready. Safe for concurrent use.
type Clock struct{ offset atomic.Int64 }

// Now is the current time.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())).UTC() }

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) { c.offset.Add(int64(d)) }

// Set moves the clock to so long after the machine's time.
func (c *Clock) Set(d time.Duration) { c.offset.Store(int64(d)) }

// WrongClocks are machines whose wall clock is far off.
var WrongClocks = map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute, "right": 0}

// OffBy is the clock of an instance on a machine that is off by wrong, after it
// has synchronized with Redis.
func (y *Bundle) OffBy(wrong time.Duration) *clock.Server {
	y.T.Helper()
	c := clock.NewServer(y.Redis, slog.New(slog.DiscardHandler))
	c.Local = func() time.Time { return time.Now().Add(wrong) }
	if err := c.Sample(y.T.Context()); err != nil {
		y.T.Fatal(err)
	}
	return c
}

// RedisTime is the Redis server's time, by which sales open.
func (y *Bundle) RedisTime() time.Time {
	y.T.Helper()
	now, err := y.Redis.Time(y.T.Context()).Result()
	if err != nil {
		y.T.Fatal(err)
	}
	return now
}
