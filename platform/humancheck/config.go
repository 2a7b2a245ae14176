package humancheck

import (
	"errors"
	"fmt"
	"time"
)

// Config is how checks are made. DefaultConfig has the defaults.
type Config struct {
	// Difficulty is how many zero bits a proof of work needs, MinDifficulty to
	// MaxDifficulty. Defaults to 18: up to a second on a phone, which nobody minds
	// once, and minutes of a whole core for whoever wants a thousand.
	Difficulty int
	// Lifetime is how long a challenge may be solved. 10 s to 30 min; defaults to
	// 2 min, in which also an unlucky phone is done.
	Lifetime time.Duration
	// Tolerance is how far off a slide's tile may be, in pixels of a picture 300
	// wide. 1 to 20; defaults to 4, with which a guess hits once in 17.
	Tolerance int
	// Pictures is how many slide pictures are drawn ahead, about 20 KiB each. 1 to
	// 4096; defaults to 64, as many as are drawn in a second.
	Pictures int
	// PerMinute is how many challenges one user, or one address while nobody is
	// logged in, gets in a minute. 0 is no limit; defaults to 20: a person with a
	// clumsy thumb stays below it.
	PerMinute int
	// Public is the kind for login, registration and SMS codes. Defaults to None.
	Public Kind
	// SiteVerify is the verifier's provider; the zero value is none.
	SiteVerify SiteVerifyConfig
	// Hosts are the host names that a verifier's token may come from, in lower case
	// and without a port: those of the shop's pages.
	Hosts []string
	// Down is what happens while the verifier cannot be asked. Defaults to Refuse.
	Down DownRule
}

// DownRule is what stands in for a verifier that is down.
type DownRule string

// The rules. There is none that lets everybody through.
const (
	Refuse  DownRule = "refuse" // nobody passes: 503
	StandIn DownRule = "pow"    // a proof of work stands in
)

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Difficulty: 18, Lifetime: 2 * time.Minute, Tolerance: 4, Pictures: 64, PerMinute: 20, Public: None, Down: Refuse}
}

// Validate returns one sentence about the first setting that is wrong, by the name
// of its flag.
func (c Config) Validate() error {
	switch {
	case c.Difficulty < MinDifficulty || c.Difficulty > MaxDifficulty:
		return fmt.Errorf("--human-check-difficulty must be between %d and %d bits, not %d", MinDifficulty, MaxDifficulty, c.Difficulty)
	case c.Lifetime < 10*time.Second || c.Lifetime > 30*time.Minute:
		return fmt.Errorf("--human-check-lifetime must be between 10s and 30m, not %s", c.Lifetime)
	case c.Tolerance < 1 || c.Tolerance > 20:
		return fmt.Errorf("--slide-tolerance must be between 1 and 20 pixels, not %d", c.Tolerance)
	case c.Pictures < 1 || c.Pictures > 4096:
		return fmt.Errorf("--slide-pictures must be between 1 and 4096, not %d", c.Pictures)
	case c.PerMinute < 0 || c.PerMinute > 6000:
		return fmt.Errorf("--challenges-per-minute must be between 1 and 6000, or 0 for no limit, not %d", c.PerMinute)
	case !c.Public.Valid():
		return fmt.Errorf("--auth-human-check must be none, pow, slide or verifier, not %q", c.Public)
	case c.Down != Refuse && c.Down != StandIn:
		return fmt.Errorf("--verifier-down must be refuse or pow, not %q", c.Down)
	case !c.SiteVerify.on() && c.Public == Verifier:
		return errors.New("--auth-human-check is verifier, but there is none: give --verifier-url, --verifier-site-key and --verifier-secret")
	case !c.SiteVerify.on():
		return nil
	}
	if err := c.SiteVerify.Validate(); err != nil {
		return err
	}
	if len(c.Hosts) == 0 {
		return errors.New("--verifier-hosts or --public-url must say which pages a verifier's token may come from, else those of any page would do")
	}
	return nil
}
