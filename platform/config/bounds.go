package config

import (
	"errors"
	"fmt"
	"time"
)

// A bound is refused here, under the name of its flag, and not by the module that
// works within it, which comes later and knows no flags. What a module allows is
// no narrower than this.

// validateBounds returns a sentence about each duration and count that is outside
// its bounds. Each help text names the same bounds.
func (s Server) validateBounds() error {
	var wrong []error
	for _, d := range []struct {
		flag             string
		got, least, most time.Duration
		between          string
	}{
		{"preheat-lead", s.PreheatLead, time.Minute, 24 * time.Hour, "1m and 24h"},
		// More than half of the time for which a stream knows a message again would let a repeat in twice.
		{"publish-deadline", s.PublishDeadline, 100 * time.Millisecond, time.Minute, "100ms and 1m"},
		// An order that a reader put into the cache stays a minute; one that changed stays longer.
		{"order-cache-ttl", s.OrderCacheTTL, time.Minute, 30 * 24 * time.Hour, "1m and 720h"},
		{"settle-after", s.SettleAfter, time.Minute, 30 * 24 * time.Hour, "1m and 720h"},
		{"stop-timeout", s.StopTimeout, time.Second, 10 * time.Minute, "1s and 10m"},
	} {
		if d.got < d.least || d.got > d.most {
			wrong = append(wrong, fmt.Errorf("--%s must be a duration between %s, not %s", d.flag, d.between, d.got))
		}
	}
	// Measured against a stop-timeout that will do, so that one mistake is not told as two.
	if s.StopTimeout >= time.Second && (s.DrainTimeout <= 0 || s.DrainTimeout >= s.StopTimeout) {
		wrong = append(wrong, fmt.Errorf("--drain-timeout must be a duration shorter than --stop-timeout (%s), which has more to do than drain requests, not %s",
			s.StopTimeout, s.DrainTimeout))
	}
	for _, n := range []struct {
		flag             string
		got, least, most int64
	}{
		// A lane keeps 64 places open however little is left.
		{"lane-capacity", int64(s.LaneCapacity), 64, 1 << 20},
		{"writer-lag-max", s.WriterLagMax, 1000, 10_000_000},
		{"max-sockets", int64(s.MaxSockets), 1, 10_000_000},
		{"grants-max-mib", s.GrantsMaxMiB, 1, 1 << 20},
		{"events-max-mib", s.EventsMaxMiB, 1, 1 << 20},
		// Two, because a pool of one deadlocks where work on a connection asks for another.
		{"conns-seckill", int64(s.ConnsSeckill), 2, 1000},
		{"conns-inventory", int64(s.ConnsInventory), 2, 1000},
		{"conns-order", int64(s.ConnsOrder), 2, 1000},
		{"conns-payment", int64(s.ConnsPayment), 2, 1000},
		{"conns-platform", int64(s.ConnsPlatform), 2, 1000},
	} {
		if n.got < n.least || n.got > n.most {
			wrong = append(wrong, fmt.Errorf("--%s must be between %d and %d, not %d", n.flag, n.least, n.most, n.got))
		}
	}
	return errors.Join(wrong...)
}
