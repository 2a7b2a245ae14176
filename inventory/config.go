package inventory

import (
	"time"

	"stampede/platform/base/config"
	"stampede/platform/store/bus"
)

// Settings are what an operator may set about stock.
type Settings struct {
	SettleAfter time.Duration `default:"15m" env:"STAMPEDE_SETTLE_AFTER" help:"How long after its sale an item's keys stay in Redis at least: until then late questions and the last returns are answered from there." min:"1m" max:"720h" rare:""`
}

const (
	// leaseTTL is how long an instance that died keeps others from loading the item
	// that it was loading. A living one renews at a third of it.
	leaseTTL = 10 * time.Second
	// tombstoneTTL is how long a released number is remembered in Redis, so that its
	// path cannot be used again: longer than a path lives, plus 60 s for clocks and
	// slow requests.
	tombstoneTTL = 240 * time.Second
)

// Config is the settings, what main knows of the process, and what is fixed but in
// tests.
type Config struct {
	Settings
	// PublishDeadline is how long after its grants a lane may still be publishing
	// them; a Load waits until that has passed for the last grant that it cannot rule
	// out. It must equal the bus's own.
	PublishDeadline time.Duration
	// SingleInstance says that no other process can publish grants, now or from before
	// this one's start: the process holds the database's instance lock and its
	// NATS server is embedded. A Load then waits for this process's own
	// publications only, so that a restart opens every item at once. Set wrongly,
	// it ends attempts whose shoppers were told that they are in line.
	SingleInstance bool
	// LeaseTTL is leaseTTL but in tests.
	LeaseTTL time.Duration
}

// NewConfig is the configuration that settings ask for in a process of several,
// whose bus repeats publications for publishDeadline.
func NewConfig(set Settings, publishDeadline time.Duration) Config {
	return Config{Settings: set, PublishDeadline: publishDeadline, LeaseTTL: leaseTTL}
}

// DefaultConfig is what Stampede runs with when nothing is set.
func DefaultConfig() Config {
	return NewConfig(config.Defaults[Settings](), config.Defaults[bus.Settings]().PublishDeadline)
}
