package config

import (
	"errors"
	"fmt"
	"time"

	"stampede/platform/httpx"
	"stampede/platform/ratelimit"
)

// Limits are how much one client, one route and everybody together may ask of an
// instance, and whom it believes about a client's address.
type Limits struct {
	TrustedProxies []string `env:"STAMPEDE_TRUSTED_PROXIES" help:"Networks of the proxies before this server, comma-separated, e.g. 10.0.0.0/8: they alone are believed about a client's address. Empty: the connection's other end is the client."`
	ProxyHeader    string   `default:"X-Forwarded-For" enum:"X-Forwarded-For,Forwarded" env:"STAMPEDE_PROXY_HEADER" help:"The one header that these proxies write the client's address into: X-Forwarded-For or Forwarded."`

	PathsPerMinute        int `default:"5" env:"STAMPEDE_PATHS_PER_MINUTE" help:"Rush paths that one user gets in a minute, over all instances; 0 is no limit."`
	PathsPerMinuteAddress int `default:"0" env:"STAMPEDE_PATHS_PER_MINUTE_ADDRESS" help:"Rush paths that one address (of IPv6 a /64) gets in a minute; 0 is no limit. Thousands of shoppers share the addresses of mobile networks, so give them room."`
	ReservationsPerMinute int `default:"10" env:"STAMPEDE_RESERVATIONS_PER_MINUTE" help:"Times that one user may reserve, look or give back in a minute, over all instances; 0 is no limit."`
	RushesPerSecond       int `default:"10" env:"STAMPEDE_RUSHES_PER_SECOND" help:"Rushes that one user may send to an instance in a second, at most 1000; 0 is no limit."`

	MaxConcurrent int  `default:"256" env:"STAMPEDE_MAX_CONCURRENT" help:"Requests that one route works on at once, the rush aside; others wait up to a second. 0 is no limit. stampede rush suggests a value."`
	MaxInFlight   int  `default:"1024" env:"STAMPEDE_MAX_IN_FLIGHT" help:"Requests that all routes work on at once, the rush aside: browsing and admin get up to half of it, the rest up to 8 tenths, callbacks and orders all. 0 is no limit."`
	FixedWait     bool `env:"STAMPEDE_FIXED_WAIT" help:"Let requests wait for a place up to a second at all times. Without it, once a line has stood for a second, newcomers wait a tenth: those whom it would not serve in time are told so at once."`
}

// validate returns a sentence about each setting that is wrong.
func (l Limits) validate() error {
	_, err := l.Proxies()
	wrong := []error{err}
	for _, n := range []struct {
		flag string
		got  int
	}{
		{"paths-per-minute", l.PathsPerMinute},
		{"paths-per-minute-address", l.PathsPerMinuteAddress},
		{"reservations-per-minute", l.ReservationsPerMinute},
		{"max-concurrent", l.MaxConcurrent},
		{"max-in-flight", l.MaxInFlight},
	} {
		if n.got < 0 || n.got > 1_000_000 {
			wrong = append(wrong, fmt.Errorf("--%s must be between 1 and 1000000, or 0 for no limit, not %d", n.flag, n.got))
		}
	}
	if _, err := ratelimit.NewRepeats(l.RushesPerSecond); err != nil {
		wrong = append(wrong, fmt.Errorf("--rushes-per-second must be between 1 and 1000, or 0 for no limit, not %d", l.RushesPerSecond))
	}
	return errors.Join(wrong...)
}

// Proxies are those who are believed about a client's address.
func (l Limits) Proxies() (httpx.Proxies, error) {
	p, err := httpx.ParseProxies(l.TrustedProxies, l.ProxyHeader)
	if err != nil {
		return p, fmt.Errorf("--trusted-proxies %w", err)
	}
	return p, nil
}

// Repeats bound how often a user sends rushes; nil does not. What could be wrong
// with it, validate has refused.
func (l Limits) Repeats() *ratelimit.Repeats {
	r, _ := ratelimit.NewRepeats(l.RushesPerSecond)
	return r
}

// Reservations is the limit of reserving and of giving back.
func (l Limits) Reservations() httpx.Limit {
	return httpx.Limit{Rule: ratelimit.Rule{Name: "reservation", Count: l.ReservationsPerMinute, Per: time.Minute}, Of: httpx.OfUser}
}

// Paths are the limits of asking for rush paths.
func (l Limits) Paths() []httpx.Limit {
	return []httpx.Limit{
		{Rule: ratelimit.Rule{Name: "rush-path", Count: l.PathsPerMinute, Per: time.Minute}, Of: httpx.OfUser},
		{Rule: ratelimit.Rule{Name: "rush-path-address", Count: l.PathsPerMinuteAddress, Per: time.Minute}, Of: httpx.OfAddress},
	}
}

// Bounds are how many requests are worked on at once.
func (l Limits) Bounds() httpx.Bounds {
	return httpx.Bounds{InFlight: l.MaxInFlight, OfRoute: l.MaxConcurrent, FixedWait: l.FixedWait}
}
