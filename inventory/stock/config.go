package stock

import (
	"time"

	"stampede/platform/base/config"
	"stampede/platform/store/bus"
)

// Settings are an operator's settings about stock.
type Settings struct {
	UnitsReturnWithin time.Duration `default:"20s" env:"STAMPEDE_UNITS_RETURN_WITHIN" help:"Units of an order that was closed unpaid, or refunded, are on sale again at a random moment within this time, so that its client cannot be the first to know; 0 is at once." min:"0s" max:"1m" rare:""`
	StockShards       int           `default:"1" env:"STAMPEDE_STOCK_SHARDS" help:"Over how many counters, each with its own place in a Redis Cluster, the units of a large item are spread at its first Load: 1 unless one Redis node limits a sale, which the preflight says. Items with fewer than 100 units for each get fewer." min:"1" max:"64" rare:""`
	SettleAfter       time.Duration `default:"15m" env:"STAMPEDE_SETTLE_AFTER" help:"How long after its sale an item's keys stay in Redis at least: until then late questions and the last returns are answered from there." min:"1m" max:"720h" rare:""`
}

const (
	// leaseTTL is how long an instance that died keeps others from loading the item that it was loading. A live
	// instance renews the lease at a third of it.
	leaseTTL = 10 * time.Second
	// TombstoneTTL is how long Redis remembers a released number, so that its path cannot be used again: longer than
	// a path lives, plus 60 s for clock differences and slow requests.
	TombstoneTTL = 240 * time.Second
)

// Config is the settings, what main knows of the process, and values that only tests change.
type Config struct {
	Settings
	// PublishDeadline is how long after its grants a lane may still be publishing them; a Load waits until that has
	// passed for the last grant that may be unpublished. It must equal the bus's own.
	PublishDeadline time.Duration
	// SingleInstance says that no other process can publish grants, now or from before this one's start: the process
	// holds the database's instance lock and its NATS server is embedded. A Load then waits for this process's own
	// publications only, so that a restart opens every item immediately. If it is set wrongly, attempts whose answer
	// was "queued" are refused.
	SingleInstance bool
	// LeaseTTL is leaseTTL; only tests change it.
	LeaseTTL time.Duration
}

// NewConfig returns the configuration for settings in a process that is one of several, whose bus repeats
// publications for publishDeadline.
func NewConfig(set Settings, publishDeadline time.Duration) Config {
	return Config{Settings: set, PublishDeadline: publishDeadline, LeaseTTL: leaseTTL}
}

// DefaultConfig is the configuration without any settings, except that units of closed orders return at once.
func DefaultConfig() Config {
	set := config.Defaults[Settings]()
	set.UnitsReturnWithin = 0
	return NewConfig(set, config.Defaults[bus.Settings]().PublishDeadline)
}
