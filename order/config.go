package order

import (
	"time"

	"stampede/platform/base/config"
)

// Settings are what an operator may set about orders. An order that a reader put
// into the cache stays for fillTTL; one that changed stays longer.
type Settings struct {
	CacheTTL time.Duration `name:"order-cache-ttl" default:"24h" env:"STAMPEDE_ORDER_CACHE_TTL" help:"How long an order stays readable without Postgres after its last change: the payment window and the day after." min:"1m" max:"720h" rare:""`
}

// fillTTL is how long an order stays in the cache that a reader put there. It is
// short because a fill may lose a race against a change that Redis had no memory
// for; it bounds how stale such an order can be.
const fillTTL = time.Minute

// Config is the settings and what is fixed but in tests; see NewConfig.
type Config struct {
	Settings
	// MaxOrdersPerTx is the most entries that one writer transaction takes, at
	// least one message: beyond a few thousand the cost per order no longer
	// falls, while the stock rows stay locked longer.
	MaxOrdersPerTx int
	// MaxRetryDelay is the longest pause between two attempts of the writer while
	// Postgres does not take the orders; it starts at 50 ms.
	MaxRetryDelay time.Duration
	// CacheMaxOrders bounds the cache: at most this many orders get CacheTTL
	// within any CacheTTL, per process; the others get fillTTL and are read again
	// when somebody asks. An order takes some 250 bytes of Redis, whose memory the
	// sale itself needs.
	CacheMaxOrders int
	// ListTimeout is how long a list may search; beyond it its reader is told to
	// narrow it. It is what a person waits for, and what a search may keep a
	// connection for.
	ListTimeout time.Duration
	// SweepEvery is how often the expiry sweeper looks without being woken.
	SweepEvery time.Duration
	// SweepLimit is how many orders are claimed and closed at a time: enough that
	// a sell-out's worth expires in seconds, few enough that the stock rows are
	// not locked for long.
	SweepLimit int
	// ClosingFor is how long a claim keeps others from paying or closing an
	// order; closing its payment at the provider has to fit in.
	ClosingFor time.Duration
	// StuckAfter is the age from which a number without an end counts as stuck
	// (I7).
	StuckAfter time.Duration
}

// NewConfig is the configuration that settings ask for.
func NewConfig(set Settings) Config {
	return Config{
		Settings:       set,
		MaxOrdersPerTx: 4096,
		MaxRetryDelay:  5 * time.Second,
		CacheMaxOrders: 1_000_000,
		ListTimeout:    5 * time.Second,
		SweepEvery:     time.Second,
		SweepLimit:     500,
		ClosingFor:     30 * time.Second,
		StuckAfter:     time.Minute,
	}
}

// DefaultConfig is what Stampede runs with when nothing is set.
func DefaultConfig() Config { return NewConfig(config.Defaults[Settings]()) }
