package risk

import "time"

// Settings are what an operator may set about the rules against offenders, and about
// the claim that limits a shopper to one exclusive activity at a time.
type Settings struct {
	MaxOffenders int           `name:"risk-max-offenders" default:"100000" env:"STAMPEDE_RISK_MAX_OFFENDERS" help:"The most users that risk rules may apply to at the same time, worst offenders first; each takes some 100 bytes of memory." min:"100" max:"1000000" rare:""`
	UnpaidPause  time.Duration `default:"1m" env:"STAMPEDE_UNPAID_PAUSE" help:"How long a shopper gets no rush path in an activity after an unpaid order there was closed; four times as long after each further one, up to a day. 0 is no pause, and no shorter payment window." min:"0s" max:"24h" rare:""`
	ClaimKeep    time.Duration `default:"1h" env:"STAMPEDE_CLAIM_KEEP" help:"How long after an exclusive activity its buyers may not take part in another: long enough for unpaid orders to be paid or closed." min:"0s" max:"720h" rare:""`
}

// claimGrace is how long after its path's end a claim waits for the order that the
// path may have become: every queued number is settled within it.
const claimGrace = time.Minute
