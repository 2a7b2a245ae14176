package order

import (
	"time"

	"stampede/platform/base/config"
)

// Settings are an operator's settings about orders. An order that a reader put
// into the cache stays for fillTTL; one that changed stays longer.
type Settings struct {
	CacheTTL      time.Duration `name:"order-cache-ttl" default:"24h" env:"STAMPEDE_ORDER_CACHE_TTL" help:"How long an order stays readable without Postgres after its last change: the payment window and the day after." min:"1m" max:"720h" rare:""`
	CompleteAfter time.Duration `name:"complete-after" default:"360h" env:"STAMPEDE_COMPLETE_AFTER" help:"How long after it was sent, or after its payment if nothing is to be sent or picked up, an order is completed by itself, 90 days later if it was never noted as sent; 0 is never. 360h is 15 days." min:"0" max:"8760h" rare:""`
}

// fillTTL is how long an order that a reader cached stays in the cache. It is
// short because a fill may lose a race against a change that Redis had no memory
// for; it bounds how stale such an order can be.
const fillTTL = time.Minute

// Config is the settings plus values that only tests change; see NewConfig.
type Config struct {
	Settings
	// MaxOrdersPerTx is the most entries that one writer transaction takes; it
	// always takes at least one message. Beyond a few thousand the cost per order
	// no longer falls, while the stock rows stay locked longer.
	MaxOrdersPerTx int
	// MaxRetryDelay is the longest pause between two attempts of the writer while
	// Postgres does not accept the orders; the first pause is 50 ms.
	MaxRetryDelay time.Duration
	// LockWait is how long the writer's transaction waits for a lock before it is
	// split by item. Transactions lock a stock row for milliseconds, a Load for
	// a second or two. Derived from it: a fourth for what is aside and for
	// what has expired, twenty times for the alarm.
	LockWait time.Duration
	// CacheMaxOrders bounds the cache: at most this many orders get CacheTTL
	// within any CacheTTL, per process; the others get fillTTL and are read from
	// Postgres again on demand. An order takes some 250 bytes of Redis, whose
	// memory the sale itself needs.
	CacheMaxOrders int
	// ListTimeout is how long a list query may run; after it the reader gets an
	// error that says how to narrow the list. It bounds how long a person waits
	// and how long a query occupies a connection.
	ListTimeout time.Duration
	// KeepDetails is how long what shoppers told about themselves is kept after their
	// order has ended.
	KeepDetails time.Duration
	// CacheBytes is the process's memory for what it just read from Postgres, some
	// 30,000 orders, which keeps polls off Postgres while Redis is full or down.
	// Half as much again remembers announced changes, some 180,000: many more than
	// happen while Redis is away and comes back with what it had before.
	CacheBytes int
	// StuckAfter is the age from which a number without an end counts as stuck
	// (I7).
	StuckAfter time.Duration
}

// ClosingFor is how long a claim keeps others from paying or closing an order;
// closing its payment at the provider must take less: payment's time-outs derive from it.
const ClosingFor = 30 * time.Second

// NewConfig returns the configuration for settings.
func NewConfig(set Settings) Config {
	return Config{
		Settings:       set,
		MaxOrdersPerTx: 4096,
		MaxRetryDelay:  5 * time.Second,
		LockWait:       time.Second,
		CacheMaxOrders: 1_000_000,
		ListTimeout:    5 * time.Second,
		KeepDetails:    90 * 24 * time.Hour,
		CacheBytes:     16 << 20,
		StuckAfter:     time.Minute,
	}
}

// DefaultConfig is the configuration without any settings.
func DefaultConfig() Config { return NewConfig(config.Defaults[Settings]()) }
