package risk

import "time"

// Settings are what an operator may set about the rules against offenders, and
// about the claim by which a shopper takes part in one exclusive activity at a time.
type Settings struct {
	MaxOffenders int           `name:"risk-max-offenders" default:"100000" env:"STAMPEDE_RISK_MAX_OFFENDERS" help:"Users whom risk rules may hit at once, the worst first, kept in memory at some 100 bytes each." min:"100" max:"1000000" rare:""`
	ClaimKeep    time.Duration `default:"1h" env:"STAMPEDE_CLAIM_KEEP" help:"How long after an exclusive activity its buyers take part in no other: as long as unpaid orders need to be paid or closed." min:"0s" max:"720h" rare:""`
}

// claimGrace is how long after its path's end a claim waits for the order that the
// path may have become: every queued number reaches its end within it.
const claimGrace = time.Minute
