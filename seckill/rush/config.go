package rush

import (
	"time"

	"stampede/platform/base/config"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/store/bus"
)

// Settings are what an operator may set about rushes. A lane of a few thousand is
// some 100 ms of work: an attempt that would wait longer should rather be
// repeated. The writer's lag is the longest that a shopper should wait in the
// line.
type Settings struct {
	LaneCapacity int   `default:"4096" env:"STAMPEDE_LANE_CAPACITY" help:"Attempts that may wait in one item's lane; beyond it the answer is too-hot." min:"64" max:"1048576" rare:""`
	MaxWriterLag int64 `name:"writer-lag-max" default:"20000" env:"STAMPEDE_WRITER_LAG_MAX" help:"Grants of one item that may wait for their order; beyond it the answer is too-hot." min:"1000" max:"10000000" rare:""`

	PathsPerMinute  int `default:"5" env:"STAMPEDE_PATHS_PER_MINUTE" help:"Rush paths that one user gets in a minute, over all instances; each further one that the user reaches gives one more. 0 is no limit." min:"0" max:"1000000" group:"Limits and proxies:" rare:""`
	RushesPerSecond int `default:"10" env:"STAMPEDE_RUSHES_PER_SECOND" help:"Rushes that one user may send to an instance in a second; 0 is no limit." min:"0" max:"1000" group:"Limits and proxies:" rare:""`
}

// rushLimit is what repeats enforces, for the document.
func (s Settings) rushLimit() httpx.Limit {
	return httpx.Limit{Rule: ratelimit.Rule{Name: "rush", Count: s.RushesPerSecond, Per: time.Second}, Of: httpx.OfUser}
}

const (
	// PathLifetime is how long a path can be used, from the opening or from when
	// it was issued, whichever is later, or from when a risk rule admits its user;
	// inventory remembers finished numbers for twice as long.
	PathLifetime = 120 * time.Second
	// clockTolerance is how far this process's clock may be off before a local
	// check refuses; Redis decides the rest.
	clockTolerance = time.Second
	// placesPerUnit bounds the line by the remaining units: an attempt beyond this
	// many places per remaining unit is immediately answered too-hot. Three are
	// enough that units refused or returned find a buyer.
	placesPerUnit = 3
	// reserveTimeout bounds one decision in Redis; after that its result is
	// unknown.
	reserveTimeout = 2 * time.Second
)

// Config is the settings, what main knows about the process, and values that only
// tests change; see NewConfig.
type Config struct {
	Settings

	// RushURL is the origin that rush_url names; empty for the server of the answer.
	RushURL string
	// PreviousSigningKeys are signing keys that were replaced less than
	// PathLead + PathLifetime ago, or ten minutes more if a risk rule admits users
	// that much later; paths signed with them remain valid.
	PreviousSigningKeys [][]byte
	// PublishDeadline is how long after the call to Redis the message of its grants
	// is republished; what is not certainly stored by then is unknown. It is the
	// bus's, and at most the time that a Load waits for it,
	// inventory.Config.PublishDeadline; otherwise grants answered as queued could be
	// refused.
	PublishDeadline time.Duration

	// PathLead is how long before the opening paths are issued: clients spread
	// their requests over it, so that the opening second carries only rushes.
	PathLead time.Duration
	// NumberBytes bounds the memory that maps numbers to items, some 250,000
	// numbers; a forgotten number is searched for among the items on sale.
	NumberBytes int
	// MinPlaces are open however few units remain, so that some attempts reach
	// Redis and find units that came back.
	MinPlaces int
	// HotFor is how long rushes are refused after the writer was seen to lag;
	// then one batch goes through to check again.
	HotFor time.Duration
	// FlagLife is how long a sold-out flag answers in place of Redis: the longest
	// that a shopper can be answered sold-out by mistake when the broadcast about a
	// return is lost.
	FlagLife time.Duration
	// MaxFilterHolders bounds the filter beside the flag (2 MiB for a million).
	// An item with more holders gets no flag and Redis answers.
	MaxFilterHolders int
	// FilterEvery is the minimum time between two reads of an item's holders,
	// which take Redis about 20 ms per 100,000.
	FilterEvery time.Duration
}

// NewConfig is the configuration for the given settings in a process whose bus
// repeats publications for publishDeadline.
func NewConfig(set Settings, publishDeadline time.Duration, previousKeys ...[]byte) Config {
	return Config{
		Settings:            set,
		PreviousSigningKeys: previousKeys,
		PublishDeadline:     publishDeadline,

		PathLead:         2 * time.Minute,
		NumberBytes:      16 << 20,
		MinPlaces:        64,
		HotFor:           500 * time.Millisecond,
		FlagLife:         2 * time.Second,
		MaxFilterHolders: 1 << 20,
		FilterEvery:      time.Second,
	}
}

// DefaultConfig is the configuration when nothing is set, except that the limits
// on paths and rushes are off.
func DefaultConfig() Config {
	set := config.Defaults[Settings]()
	set.PathsPerMinute, set.RushesPerSecond = 0, 0
	return NewConfig(set, config.Defaults[bus.Settings]().PublishDeadline)
}
