package config

import (
	"errors"
	"fmt"
	"time"
)

// Risk are the settings of the blacklist, the rules about offenders, and the
// claim by which a shopper takes part in one exclusive activity at a time.
type Risk struct {
	BlacklistMax      int           `default:"100000" env:"STAMPEDE_BLACKLIST_MAX" help:"Entries that the blacklist takes, kept in memory at some 300 bytes each: 100 to 1000000."`
	BlacklistKeep     time.Duration `default:"720h" env:"STAMPEDE_BLACKLIST_KEEP" help:"How long an entry that has ended stays readable before it is deleted, as a duration of at least 1h; 720h are 30 days."`
	RiskMaxOffenders  int           `default:"100000" env:"STAMPEDE_RISK_MAX_OFFENDERS" help:"Users whom risk rules may hit at once, the worst first, kept in memory: 100 to 1000000."`
	RiskKeepDecisions time.Duration `default:"2160h" env:"STAMPEDE_RISK_KEEP_DECISIONS" help:"How long it stays readable what restricted whom, as a duration of at least 1h; 2160h are 90 days."`
	ClaimKeep         time.Duration `default:"1h" env:"STAMPEDE_CLAIM_KEEP" help:"How long after an exclusive activity its buyers take part in no other, as a duration of at most 720h."`
}

// validate returns a sentence about each setting that is wrong.
func (r Risk) validate() error {
	var wrong []error
	for _, n := range []struct {
		flag string
		got  int
	}{{"blacklist-max", r.BlacklistMax}, {"risk-max-offenders", r.RiskMaxOffenders}} {
		if n.got < 100 || n.got > 1_000_000 {
			wrong = append(wrong, fmt.Errorf("--%s must be between 100 and 1000000, not %d", n.flag, n.got))
		}
	}
	for _, d := range []struct {
		flag string
		got  time.Duration
	}{{"blacklist-keep", r.BlacklistKeep}, {"risk-keep-decisions", r.RiskKeepDecisions}} {
		if d.got < time.Hour {
			wrong = append(wrong, fmt.Errorf("--%s must be a duration of at least 1h, not %s", d.flag, d.got))
		}
	}
	if r.ClaimKeep < 0 || r.ClaimKeep > 720*time.Hour {
		wrong = append(wrong, fmt.Errorf("--claim-keep must be a duration between 0 and 720h, not %s", r.ClaimKeep))
	}
	return errors.Join(wrong...)
}
