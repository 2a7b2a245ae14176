package plan

import (
	"fmt"
	"time"
	_ "time/tzdata" // the shop's zone also resolves in a container without zone files
)

// Settings are what an operator may set about activities and their opening. Most
// shops that run such sales keep their books in the default time zone.
type Settings struct {
	TimeZone          string        `default:"Asia/Shanghai" env:"STAMPEDE_TIME_ZONE" help:"The shop's IANA time zone, for business dates such as midnight."`
	PreheatLead       time.Duration `default:"30m" env:"STAMPEDE_PREHEAT_LEAD" help:"How long before the opening an item's stock is loaded into Redis: enough time to act on the alarm of a failed load." min:"1m" max:"24h" rare:""`
	PreheatAtMidnight bool          `name:"preheat-midnight" env:"STAMPEDE_PREHEAT_MIDNIGHT" help:"Load at 00:00 of the day of the opening, in the shop's time zone, if that is earlier than --preheat-lead would load it." rare:""`
}

// Check reports an unknown zone. It also refuses the names that Go accepts beyond
// IANA's: the empty name for UTC, and "Local" for the machine's zone, which could
// differ between instances.
func (s Settings) Check() error {
	if _, err := time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "" || s.TimeZone == "Local" {
		return fmt.Errorf("--time-zone must be an IANA name such as Asia/Shanghai, not %q", s.TimeZone)
	}
	return nil
}

// Zone is the shop's time zone; UTC for a name that Check refuses.
func (s Settings) Zone() *time.Location {
	z, err := time.LoadLocation(s.TimeZone)
	if err != nil {
		return time.UTC
	}
	return z
}

// Config is the settings, what main knows about the process, and values that only
// tests change.
type Config struct {
	Settings
	// ShortestPayWindow is the shortest payment window that every payment
	// provider in use can keep; an activity with a shorter one is not published.
	ShortestPayWindow time.Duration
	// CanPay says that a payment provider is set up; without one nothing that costs
	// money is published.
	CanPay bool
	// Verifier says that an outside verifier of human checks is set up; without
	// one an activity that requires it is not published.
	Verifier bool
}

// NewConfig is the configuration for the given settings in a shop without a
// payment provider or a verifier.
func NewConfig(set Settings) Config { return Config{Settings: set, ShortestPayWindow: MinPayWindow} }
