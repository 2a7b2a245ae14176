package rush

import (
	"errors"
	"fmt"
	"time"

	"stampede/platform/httpx"
)

// Config is how rushes are admitted. The zero value is not valid; start
// from DefaultConfig.
type Config struct {
	// PathLead is how long before the opening paths are given out. 0 … 10 min.
	// Defaults to 2 min: clients spread their requests over it, so that the
	// opening second carries rushes alone.
	PathLead time.Duration
	// PathLifetime is how long a path can be used, from the opening or from when
	// it was issued, whichever is later. 10 s … 120 s; inventory remembers
	// finished numbers for twice as long. Defaults to 120 s.
	PathLifetime time.Duration
	// PathLimits bound how often paths are asked for, by a user or from an address;
	// none by default.
	PathLimits []httpx.Limit
	// ClockTolerance is how far this process's idea of the time may be off before
	// a local check refuses; Redis decides about the rest. 0 … 10 s. Defaults to
	// 1 s.
	ClockTolerance time.Duration

	// LaneCapacity is how many attempts may wait for one item on this instance.
	// 16 … 1,048,576. Defaults to 8192, about 200 ms of work: who would wait
	// longer is better served by coming again.
	LaneCapacity int
	// PlacesPerUnit bounds the line by what is left: beyond this many places per
	// remaining unit an attempt is told too-hot at once. 1 … 1000. Defaults to 3:
	// enough that units refused or returned find a taker.
	PlacesPerUnit int
	// MinPlaces are open however little is left, so that somebody goes and sees
	// whether units came back. 1 … LaneCapacity. Defaults to 64.
	MinPlaces int
	// MaxWriterLag is how many grants of one item may wait to be written before
	// rushes are told too-hot. 1000 … 10,000,000. Defaults to 100,000: a few
	// seconds of the order writer's work, the longest a shopper should stare at a
	// place in the line.
	MaxWriterLag int64
	// HotFor is how long rushes are refused after the writer was seen to lag;
	// then one batch goes and looks again. 50 ms … 10 s. Defaults to 500 ms.
	HotFor time.Duration
	// ReserveTimeout bounds one decision of Redis. 100 ms … 30 s. Defaults to
	// 2 s; what it made of an attempt is unknown after that.
	ReserveTimeout time.Duration

	// PublishDeadline is how long after Redis was asked the message of what it
	// granted is repeated; what is not certainly stored by then is unknown. Not more
	// than the time that a Load waits for it, inventory.Config.PublishDeadline, or
	// grants told as queued can be refused. 100 ms … 1 min. Defaults to 5 s.
	PublishDeadline time.Duration

	// FlagLife is how long a sold-out flag answers for Redis, in whole seconds,
	// rounded up. 1 s … 60 s. Defaults to 2 s, which the cache makes 1 … 2 s:
	// the longest a shopper can be told sold-out by mistake when the broadcast
	// about a return is lost.
	FlagLife time.Duration
	// MaxFilterHolders bounds the filter that stands beside the flag. An item
	// with more holders gets no flag and Redis answers. 1024 … 16,777,216.
	// Defaults to 1,048,576 (2 MiB of filter).
	MaxFilterHolders int
	// FilterEvery is the least time between two readings of an item's holders,
	// which take Redis about 20 ms per 100,000. 100 ms … 60 s. Defaults to 1 s.
	FilterEvery time.Duration

	// NumberMemoryBytes bounds the memory of which number is for which item.
	// 512 KiB … 1 GiB. Defaults to 16 MiB, some 250,000 numbers; a number that
	// was forgotten is looked for among the items on sale.
	NumberMemoryBytes int

	// StaleHold is how old a hold without an order row is before the sweeper
	// looks into it. 100 ms … 10 min. Defaults to 10 s, well above a publication's
	// deadline and the writer's usual delay.
	StaleHold time.Duration
	// SweepEvery is the time between two rounds of the sweeper. 10 ms … 1 min.
	// Defaults to 2 s.
	SweepEvery time.Duration

	// PreviousSigningKeys are signing keys that were replaced less than
	// PathLead + PathLifetime ago; paths signed with them stay good.
	PreviousSigningKeys [][]byte
}

// DefaultConfig is what the fields' comments say.
func DefaultConfig() Config {
	return Config{
		PathLead:       2 * time.Minute,
		PathLifetime:   120 * time.Second,
		ClockTolerance: time.Second,

		LaneCapacity:   8192,
		PlacesPerUnit:  3,
		MinPlaces:      64,
		MaxWriterLag:   100_000,
		HotFor:         500 * time.Millisecond,
		ReserveTimeout: 2 * time.Second,

		PublishDeadline: 5 * time.Second,

		FlagLife:         2 * time.Second,
		MaxFilterHolders: 1 << 20,
		FilterEvery:      time.Second,

		NumberMemoryBytes: 16 << 20,

		StaleHold:  10 * time.Second,
		SweepEvery: 2 * time.Second,
	}
}

// Validate returns every setting that is out of its range, with the range.
func (c Config) Validate() error {
	var errs []error
	within(&errs, "path lead", c.PathLead, 0, 10*time.Minute)
	within(&errs, "path lifetime", c.PathLifetime, 10*time.Second, 120*time.Second)
	within(&errs, "clock tolerance", c.ClockTolerance, 0, 10*time.Second)
	within(&errs, "lane capacity", c.LaneCapacity, 16, 1<<20)
	within(&errs, "places per unit", c.PlacesPerUnit, 1, 1000)
	within(&errs, "least number of places", c.MinPlaces, 1, c.LaneCapacity)
	within(&errs, "most grants waiting to be written", c.MaxWriterLag, 1000, 10_000_000)
	within(&errs, "time to stay hot", c.HotFor, 50*time.Millisecond, 10*time.Second)
	within(&errs, "reserve timeout", c.ReserveTimeout, 100*time.Millisecond, 30*time.Second)
	within(&errs, "publish deadline", c.PublishDeadline, 100*time.Millisecond, time.Minute)
	within(&errs, "life of a sold-out flag", c.FlagLife, time.Second, time.Minute)
	within(&errs, "most holders in a filter", c.MaxFilterHolders, 1024, 1<<24)
	within(&errs, "time between readings of holders", c.FilterEvery, 100*time.Millisecond, time.Minute)
	within(&errs, "memory for numbers in bytes", c.NumberMemoryBytes, 512<<10, 1<<30)
	within(&errs, "age of a stale hold", c.StaleHold, 100*time.Millisecond, 10*time.Minute)
	within(&errs, "time between sweeps", c.SweepEvery, 10*time.Millisecond, time.Minute)
	return errors.Join(errs...)
}

func within[T int | int64 | time.Duration](errs *[]error, what string, v, low, high T) {
	if v < low || v > high {
		*errs = append(*errs, fmt.Errorf("seckill: %s is %v; it may be %v … %v", what, v, low, high))
	}
}
