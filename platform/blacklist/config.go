package blacklist

import (
	"errors"
	"time"
)

// Config is what an operator may set.
type Config struct {
	// MaxEntries bounds the list, which every instance keeps in memory at some 300
	// bytes an entry: 100 … 1,000,000. Defaults to 100,000.
	MaxEntries int
	// KeepEnded is how long an entry stays readable for operators after it ended;
	// then it is deleted, and with it the phone or address it named. At least 1 h.
	// Defaults to 30 days.
	KeepEnded time.Duration
}

// DefaultConfig is what Stampede runs with when nothing is set.
func DefaultConfig() Config { return Config{MaxEntries: 100_000, KeepEnded: 30 * 24 * time.Hour} }

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	switch {
	case c.MaxEntries < 100 || c.MaxEntries > 1_000_000:
		return errors.New("blacklist: MaxEntries must be between 100 and 1000000")
	case c.KeepEnded < time.Hour:
		return errors.New("blacklist: KeepEnded must be at least 1 h")
	default:
		return nil
	}
}
