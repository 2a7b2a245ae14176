package order

import (
	"errors"
	"time"
)

// Config is what an operator may set.
type Config struct {
	// MaxOrdersPerTx is the most entries that one writer transaction takes, at
	// least one message: beyond a few thousand the cost per order no longer
	// falls, while the stock rows stay locked longer. Defaults to 4096.
	MaxOrdersPerTx int
	// MaxRetryDelay is the longest pause between two attempts of the writer while
	// Postgres does not take the orders; it starts at 50 ms. Defaults to 5 s.
	MaxRetryDelay time.Duration
	// CacheTTL is how long an order stays readable without Postgres after its
	// last change. Defaults to 24 h: the payment window and the day after.
	CacheTTL time.Duration
	// CacheMaxOrders bounds the cache: at most this many orders get CacheTTL
	// within any CacheTTL, per process; the others get FillTTL and are read again
	// when somebody asks. An order takes some 250 bytes of Redis, whose memory the
	// sale itself needs. Defaults to 1,000,000.
	CacheMaxOrders int
	// FillTTL is how long an order stays in the cache that a reader put there.
	// It is short because a fill may lose a race against a change that Redis had
	// no memory for; it bounds how stale such an order can be. Defaults to 60 s.
	FillTTL time.Duration
	// ListTimeout is how long a list may search; beyond it its reader is told to
	// narrow it. It is what a person waits for, and what a search may keep a
	// connection for. Defaults to 5 s.
	ListTimeout time.Duration
	// SweepEvery is how often the expiry sweeper looks without being woken.
	// Defaults to 1 s.
	SweepEvery time.Duration
	// SweepLimit is how many orders are claimed and closed at a time: enough that
	// a sell-out's worth expires in seconds, few enough that the stock rows are
	// not locked for long. Defaults to 500.
	SweepLimit int
	// ClosingFor is how long a claim keeps others from paying or closing an
	// order; closing its payment at the provider has to fit in. Defaults to 30 s.
	ClosingFor time.Duration
	// StuckAfter is the age from which a number without an end counts as stuck
	// (I7). Defaults to 60 s.
	StuckAfter time.Duration
}

// DefaultConfig is what Stampede runs with when nothing is set.
func DefaultConfig() Config {
	return Config{
		MaxOrdersPerTx: 4096,
		MaxRetryDelay:  5 * time.Second,
		CacheTTL:       24 * time.Hour,
		CacheMaxOrders: 1_000_000,
		FillTTL:        time.Minute,
		ListTimeout:    5 * time.Second,
		SweepEvery:     time.Second,
		SweepLimit:     500,
		ClosingFor:     30 * time.Second,
		StuckAfter:     time.Minute,
	}
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	switch {
	case c.MaxOrdersPerTx < 1 || c.MaxOrdersPerTx > 65536:
		return errors.New("order: MaxOrdersPerTx must be between 1 and 65536")
	case c.MaxRetryDelay < 50*time.Millisecond:
		return errors.New("order: MaxRetryDelay must be at least 50 ms")
	case c.CacheTTL < time.Minute:
		return errors.New("order: CacheTTL must be at least 1 min")
	case c.CacheMaxOrders < 10_000:
		return errors.New("order: CacheMaxOrders must be at least 10000")
	case c.FillTTL < time.Second || c.FillTTL > c.CacheTTL:
		return errors.New("order: FillTTL must be between 1 s and CacheTTL")
	case c.ListTimeout < 100*time.Millisecond || c.ListTimeout > time.Minute:
		return errors.New("order: ListTimeout must be between 100 ms and 1 min")
	case c.SweepEvery < 10*time.Millisecond || c.SweepEvery > time.Minute:
		return errors.New("order: SweepEvery must be between 10 ms and 1 min")
	case c.SweepLimit < 1 || c.SweepLimit > 10000:
		return errors.New("order: SweepLimit must be between 1 and 10000")
	case c.ClosingFor < time.Second || c.ClosingFor > 10*time.Minute:
		return errors.New("order: ClosingFor must be between 1 s and 10 min")
	case c.StuckAfter < 10*time.Second:
		return errors.New("order: StuckAfter must be at least 10 s")
	default:
		return nil
	}
}
