package reservation

import (
	"time"

	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
)

// Settings are what an operator may set about reservations.
type Settings struct {
	ReservationsPerMinute int `default:"10" env:"STAMPEDE_RESERVATIONS_PER_MINUTE" help:"Requests a minute in which one user may reserve, look up or cancel, over all instances; 0 is no limit." min:"0" max:"1000000" group:"Limits and proxies:" rare:""`
}

// Limit is the rate limit of reserving and of cancelling.
func (s Settings) Limit() httpx.Limit {
	return httpx.Limit{Rule: ratelimit.Rule{Name: "reservation", Count: s.ReservationsPerMinute, Per: time.Minute}, Of: httpx.OfUser}
}
