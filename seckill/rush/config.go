package rush

import (
	"time"

	"stampede/platform/base/config"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/store/bus"
)

// Settings are what an operator may set about rushes. A lane of a few thousand is
// some 100 ms of work: an attempt that would wait longer is better repeated. The
// writer's lag is the longest that a shopper should stare at a place in the line.
type Settings struct {
	LaneCapacity int   `default:"4096" env:"STAMPEDE_LANE_CAPACITY" help:"Attempts that may wait in one item's lane; beyond it the answer is too-hot." min:"64" max:"1048576"`
	MaxWriterLag int64 `name:"writer-lag-max" default:"20000" env:"STAMPEDE_WRITER_LAG_MAX" help:"Grants of one item that may wait for their order; beyond it the answer is too-hot." min:"1000" max:"10000000"`

	PathsPerMinute        int `default:"5" env:"STAMPEDE_PATHS_PER_MINUTE" help:"Rush paths that one user gets in a minute, over all instances; 0 is no limit." min:"0" max:"1000000" group:"Limits and proxies:"`
	PathsPerMinuteAddress int `default:"0" env:"STAMPEDE_PATHS_PER_MINUTE_ADDRESS" help:"Rush paths that one address (of IPv6 a /64) gets in a minute; 0 is no limit. Thousands of shoppers share the addresses of mobile networks, so give them room." min:"0" max:"1000000" group:"Limits and proxies:" rare:""`
	RushesPerSecond       int `default:"10" env:"STAMPEDE_RUSHES_PER_SECOND" help:"Rushes that one user may send to an instance in a second; 0 is no limit." min:"0" max:"1000" group:"Limits and proxies:"`
}

// pathLimits bound how often paths are asked for.
func (s Settings) pathLimits() []httpx.Limit {
	return []httpx.Limit{
		{Rule: ratelimit.Rule{Name: "rush-path", Count: s.PathsPerMinute, Per: time.Minute}, Of: httpx.OfUser},
		{Rule: ratelimit.Rule{Name: "rush-path-address", Count: s.PathsPerMinuteAddress, Per: time.Minute}, Of: httpx.OfAddress},
	}
}

const (
	// PathLifetime is how long a path can be used, from the opening or from when
	// it was issued, whichever is later; inventory remembers finished numbers for
	// twice as long.
	PathLifetime = 120 * time.Second
	// clockTolerance is how far this process's idea of the time may be off before
	// a local check refuses; Redis decides about the rest.
	clockTolerance = time.Second
	// placesPerUnit bounds the line by what is left: beyond this many places per
	// remaining unit an attempt is answered too-hot at once. Three are enough that
	// units refused or returned find a taker.
	placesPerUnit = 3
	// reserveTimeout bounds one decision of Redis; what it made of an attempt is
	// unknown after that.
	reserveTimeout = 2 * time.Second
	// numberMemoryBytes bounds the memory of which number is for which item, some
	// 250,000 numbers; a number that was forgotten is looked for among the items on
	// sale.
	numberMemoryBytes = 16 << 20
)

// Config is the settings, what main knows of the process, and what is fixed but in
// tests; see NewConfig.
type Config struct {
	Settings

	// PreviousSigningKeys are signing keys that were replaced less than
	// PathLead + PathLifetime ago; paths signed with them stay good.
	PreviousSigningKeys [][]byte
	// PublishDeadline is how long after Redis was asked the message of what it
	// granted is repeated; what is not certainly stored by then is unknown. It is the
	// bus's, and not more than the time that a Load waits for it,
	// inventory.Config.PublishDeadline, or grants told as queued can be refused.
	PublishDeadline time.Duration

	// PathLead is how long before the opening paths are given out: clients spread
	// their requests over it, so that the opening second carries rushes alone.
	PathLead time.Duration
	// MinPlaces are open however little is left, so that an attempt goes and sees
	// whether units came back.
	MinPlaces int
	// HotFor is how long rushes are refused after the writer was seen to lag;
	// then one batch goes and looks again.
	HotFor time.Duration
	// FlagLife is how long a sold-out flag answers for Redis, in whole seconds,
	// rounded up. The cache makes 1 … 2 s of two seconds: the longest a shopper can
	// be told sold-out by mistake when the broadcast about a return is lost.
	FlagLife time.Duration
	// MaxFilterHolders bounds the filter that stands beside the flag (2 MiB for a
	// million). An item with more holders gets no flag and Redis answers.
	MaxFilterHolders int
	// FilterEvery is the least time between two readings of an item's holders,
	// which take Redis about 20 ms per 100,000.
	FilterEvery time.Duration
	// StaleHold is how old a hold without an order row is before the sweeper
	// looks into it, well above a publication's deadline and the writer's usual
	// delay.
	StaleHold time.Duration
	// SweepEvery is the time between two rounds of the sweeper.
	SweepEvery time.Duration
}

// NewConfig is the configuration that settings ask for in a process whose bus
// repeats publications for publishDeadline.
func NewConfig(set Settings, publishDeadline time.Duration, previousKeys ...[]byte) Config {
	return Config{
		Settings:            set,
		PreviousSigningKeys: previousKeys,
		PublishDeadline:     publishDeadline,

		PathLead:         2 * time.Minute,
		MinPlaces:        64,
		HotFor:           500 * time.Millisecond,
		FlagLife:         2 * time.Second,
		MaxFilterHolders: 1 << 20,
		FilterEvery:      time.Second,
		StaleHold:        10 * time.Second,
		SweepEvery:       2 * time.Second,
	}
}

// DefaultConfig is what Stampede runs with when nothing is set but the limits on
// paths and rushes, which are off.
func DefaultConfig() Config {
	set := config.Defaults[Settings]()
	set.PathsPerMinute, set.RushesPerSecond = 0, 0
	return NewConfig(set, config.Defaults[bus.Settings]().PublishDeadline)
}
