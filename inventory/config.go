package inventory

import (
	"fmt"
	"time"
)

// Config holds inventory's settings.
type Config struct {
	// PublishDeadline is how long after its grants a lane may still be
	// publishing them; a Load waits until that has passed for the last grant that
	// it cannot rule out. It must equal the bus's own. Defaults to 5 s.
	PublishDeadline time.Duration
	// Alone says that no other process can publish grants, now or from before
	// this one's start: the process holds the database's instance lock and its
	// NATS server is embedded. A Load then waits for this process's own
	// publications only, so that a restart opens every item at once. Set wrongly,
	// it ends attempts whose shoppers were told that they are in line. Defaults to
	// false.
	Alone bool
	// LeaseTTL is how long an instance that died keeps others from loading the
	// item it was loading. A living one renews at a third of it. Defaults to 10 s.
	LeaseTTL time.Duration
	// TombstoneTTL is how long a released number is remembered in Redis, so that
	// its path cannot be used again. It must be longer than a path lives, plus
	// 60 s for clocks and slow requests. Defaults to 240 s.
	TombstoneTTL time.Duration
	// SettleAfter is how long after the end of a sale its keys are removed from
	// Redis at the earliest. Until then shoppers' late questions and the last
	// returns are answered from there. 1 minute … 30 days. Defaults to 15 min.
	SettleAfter time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{PublishDeadline: 5 * time.Second, LeaseTTL: 10 * time.Second, TombstoneTTL: 240 * time.Second, SettleAfter: 15 * time.Minute}
}

// Validate reports the first setting that is out of its range.
func (c Config) Validate() error {
	switch {
	case c.PublishDeadline <= 0 || c.PublishDeadline > time.Minute:
		return fmt.Errorf("inventory: publish deadline must be above 0 and at most 1 minute, got %v", c.PublishDeadline)
	case c.LeaseTTL < time.Second || c.LeaseTTL > 5*time.Minute:
		return fmt.Errorf("inventory: load lease must last 1 s to 5 minutes, got %v", c.LeaseTTL)
	case c.TombstoneTTL < 3*time.Minute || c.TombstoneTTL > 24*time.Hour:
		return fmt.Errorf("inventory: released numbers must be remembered for 3 minutes to 24 hours, got %v", c.TombstoneTTL)
	case c.SettleAfter < time.Minute || c.SettleAfter > 30*24*time.Hour:
		return fmt.Errorf("inventory: keys of ended sales must be kept for 1 minute to 30 days, got %v", c.SettleAfter)
	}
	return nil
}
