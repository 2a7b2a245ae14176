package seckill

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // a container without zone files knows the shop's zone all the same

	"stampede/seckill/rush"
)

// Config is how the module behaves. The zero value is not valid; start from
// DefaultConfig.
type Config struct {
	// PreheatLead is how long before its opening an item is loaded into Redis.
	// 1 minute … 24 h. Defaults to 30 min: time enough to see a failed Load on
	// an alarm and to act on it.
	PreheatLead time.Duration
	// PreheatAtMidnight loads at 00:00 of the opening's day in TimeZone when
	// that is earlier than PreheatLead says. Defaults to false.
	PreheatAtMidnight bool
	// TimeZone is the shop's, in which its days begin. Defaults to
	// Asia/Shanghai, where most shops that run such sales keep their books.
	TimeZone string

	// PreheatAlarmAfter is how many Loads of one item may fail in a row before an
	// alarm asks for a person. 1 … 100. Defaults to 3: one failure is a blip, the
	// third in a row will not heal by itself.
	PreheatAlarmAfter int
	// ShortestPayWindow is the shortest payment window that every payment
	// provider in use can keep; an activity with a shorter one is not published.
	// 10 s … 1 h. Defaults to 10 s, the shortest an activity may ask for.
	ShortestPayWindow time.Duration
	// CanPay says that a payment provider is set up; without one nothing that costs
	// money is published. Defaults to false.
	CanPay bool
	// Verifier says that an outside verifier of human checks is there; without one
	// an activity that asks for it is not published. Defaults to false.
	Verifier bool
	// BrowseCacheBytes is the memory for browse answers, which live 1 to 2 s in
	// it. An answer of more than a 1024th of it is not kept. 512 KiB … 1 GiB.
	// Defaults to 32 MiB: sessions of some forty items are kept, a thousand at once.
	BrowseCacheBytes int

	// Rush is how rushes are admitted.
	Rush rush.Config
}

// DefaultConfig is safe for a small shop on one machine.
func DefaultConfig() Config {
	return Config{
		PreheatLead:       30 * time.Minute,
		TimeZone:          "Asia/Shanghai",
		PreheatAlarmAfter: 3,
		ShortestPayWindow: minPayWindow,
		BrowseCacheBytes:  32 << 20,
		Rush:              rush.DefaultConfig(),
	}
}

// Validate returns every setting that is out of its range, with the range.
func (c Config) Validate() error {
	var errs []error
	if c.PreheatLead < time.Minute || c.PreheatLead > 24*time.Hour {
		errs = append(errs, fmt.Errorf("seckill: preheat lead is %v; it may be 1m … 24h", c.PreheatLead))
	}
	if _, err := time.LoadLocation(c.TimeZone); err != nil {
		errs = append(errs, fmt.Errorf("seckill: time zone %q is not known here: %w", c.TimeZone, err))
	}
	if c.PreheatAlarmAfter < 1 || c.PreheatAlarmAfter > 100 {
		errs = append(errs, fmt.Errorf("seckill: preheat alarm after %d failures; it may be 1 … 100", c.PreheatAlarmAfter))
	}
	if c.ShortestPayWindow < minPayWindow || c.ShortestPayWindow > time.Hour {
		errs = append(errs, fmt.Errorf("seckill: shortest payment window is %v; it may be 10s … 1h", c.ShortestPayWindow))
	}
	if c.BrowseCacheBytes < 512<<10 || c.BrowseCacheBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("seckill: browse cache is %d bytes; it may be 524288 … 1073741824", c.BrowseCacheBytes))
	}
	return errors.Join(append(errs, c.Rush.Validate())...)
}

// zone is the shop's time zone; UTC for a name that Validate refuses.
func (c Config) zone() *time.Location {
	z, err := time.LoadLocation(c.TimeZone)
	if err != nil {
		return time.UTC
	}
	return z
}
