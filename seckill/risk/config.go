package risk

import (
	"errors"
	"time"

	"stampede/seckill/rush"
)

// Config is what an operator may set.
type Config struct {
	// PathLifetime is the rush paths'; a claim lasts longer than its path. Defaults
	// to the seckill module's own, 120 s.
	PathLifetime time.Duration
	// ClaimGrace is how long after its path's end a claim waits for the order that
	// the path may have become, at least 10 s. Defaults to 60 s, within which every
	// queued number reaches its end.
	ClaimGrace time.Duration
	// ClaimKeep is how long after the activity's end a claim binds whoever bought
	// there; 0 … 720 h. Defaults to 1 h, in which unpaid orders are paid or closed.
	ClaimKeep time.Duration
	// KeepDecisions is how long a decision stays readable, at least 1 h. Defaults
	// to 90 days.
	KeepDecisions time.Duration
	// MaxOffenders bounds the marks, which every instance keeps in memory at some
	// 100 bytes each; the worst offenders come first. 100 … 1,000,000. Defaults to
	// 100,000.
	MaxOffenders int
}

// DefaultConfig is what Stampede runs with when nothing is set.
func DefaultConfig() Config {
	return Config{
		PathLifetime:  rush.DefaultConfig().PathLifetime,
		ClaimGrace:    time.Minute,
		ClaimKeep:     time.Hour,
		KeepDecisions: 90 * 24 * time.Hour,
		MaxOffenders:  100_000,
	}
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	switch {
	case c.PathLifetime < time.Second || c.PathLifetime > time.Hour:
		return errors.New("risk: PathLifetime must be between 1 s and 1 h")
	case c.ClaimGrace < 10*time.Second || c.ClaimGrace > time.Hour:
		return errors.New("risk: ClaimGrace must be between 10 s and 1 h")
	case c.ClaimKeep < 0 || c.ClaimKeep > 720*time.Hour:
		return errors.New("risk: ClaimKeep must be between 0 and 720 h")
	case c.KeepDecisions < time.Hour:
		return errors.New("risk: KeepDecisions must be at least 1 h")
	case c.MaxOffenders < 100 || c.MaxOffenders > 1_000_000:
		return errors.New("risk: MaxOffenders must be between 100 and 1000000")
	default:
		return nil
	}
}
