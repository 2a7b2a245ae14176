package config

import (
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

func (r Risk) validate() error {
	for name, n := range map[string]int{"blacklist-max": r.BlacklistMax, "risk-max-offenders": r.RiskMaxOffenders} {
		if n < 100 || n > 1_000_000 {
			return fmt.Errorf("--%s must be between 100 and 1000000, not %d", name, n)
		}
	}
	for name, d := range map[string]time.Duration{"blacklist-keep": r.BlacklistKeep, "risk-keep-decisions": r.RiskKeepDecisions} {
		if d < time.Hour {
			return fmt.Errorf("--%s must be a duration of at least 1h, not %s", name, d)
		}
	}
	if r.ClaimKeep < 0 || r.ClaimKeep > 720*time.Hour {
		return fmt.Errorf("--claim-keep must be a duration between 0 and 720h, not %s", r.ClaimKeep)
	}
	return nil
}
