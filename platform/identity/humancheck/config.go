package humancheck

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"stampede/platform/edge/httpx"
)

// Settings are the operator's settings for human checks. Each activity's plan sets
// its kind; AuthHumanCheck sets it for logins.
type Settings struct {
	AuthHumanCheck      Kind   `default:"pow" enum:"none,pow,slide,verifier" env:"STAMPEDE_AUTH_HUMAN_CHECK" help:"Human check for SMS codes, and for logins and registrations after failures or many accounts from one address or device: none, pow, slide or verifier. A proof of work gets harder with their record."`
	HumanCheckStrength  string `default:"normal" enum:"low,normal,high" env:"STAMPEDE_HUMAN_CHECK_STRENGTH" help:"How hard checks are. A proof of work takes a desktop browser 0.05 s (low), 0.2 s (normal) or 0.8 s (high), a phone five times as long; a quarter of that for a first SMS code, and up to four times as much where many accounts come from one address; one in 11, 17 or 22 blind guesses at a slide captcha succeeds, and four of five attempts of a program that was written for it; set a verifier where something is scarce." rare:""`
	ChallengesPerMinute int    `default:"20" env:"STAMPEDE_CHALLENGES_PER_MINUTE" help:"Challenges that one user, or one address before a login, gets per minute; 0: no limit." min:"0" max:"6000" rare:""`

	VerifierURL     string        `default:"" env:"STAMPEDE_VERIFIER_URL" help:"The siteverify URL of a service such as Cloudflare Turnstile, e.g. https://challenges.cloudflare.com/turnstile/v0/siteverify (http:// on this machine only). Empty: no verifier."`
	VerifierSiteKey string        `default:"" env:"STAMPEDE_VERIFIER_SITE_KEY" help:"The shop's public key at the verifier."`
	VerifierSecret  string        `default:"" env:"STAMPEDE_VERIFIER_SECRET" help:"The shop's secret at the verifier." secret:""`
	VerifierHosts   []string      `env:"STAMPEDE_VERIFIER_HOSTS" help:"Host names of the pages that tokens may come from, comma-separated. Empty: the host of --public-url." rare:""`
	VerifierTimeout time.Duration `default:"2s" env:"STAMPEDE_VERIFIER_TIMEOUT" help:"How long the verifier may take to judge a token." min:"100ms" max:"30s" rare:""`
	VerifierDown    DownRule      `default:"refuse" enum:"refuse,pow" env:"STAMPEDE_VERIFIER_DOWN" help:"What happens while the verifier is down: refuse (every check fails with 503) or pow (a proof of work replaces it)." rare:""`
}

// Check returns an error that names the wrong setting.
func (s Settings) Check() error {
	u, err := url.Parse(s.VerifierURL)
	switch {
	case !s.hasVerifier() && s.AuthHumanCheck == Verifier:
		return errors.New("--auth-human-check is verifier, but no verifier is set: set --verifier-url, --verifier-site-key and --verifier-secret")
	case !s.hasVerifier():
		return nil
	case s.VerifierURL == "" || s.VerifierSiteKey == "" || s.VerifierSecret == "":
		return errors.New("--verifier-url, --verifier-site-key and --verifier-secret belong together: give all of them or none")
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("--verifier-url must be like https://challenges.cloudflare.com/turnstile/v0/siteverify")
	case u.Scheme == "http" && !httpx.Loopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return errors.New("--verifier-url must begin with https:// because the secret is sent there; http:// is allowed on this machine only")
	}
	return nil
}

// hasVerifier reports whether any of the verifier's settings is given.
func (s Settings) hasVerifier() bool {
	return s.VerifierURL != "" || s.VerifierSiteKey != "" || s.VerifierSecret != ""
}

// DownRule says what happens while the verifier is down.
type DownRule string

// The rules. None of them lets everyone through.
const (
	Refuse  DownRule = "refuse" // refuses every check: 503
	StandIn DownRule = "pow"    // accepts a proof of work instead
)

const (
	// challengeLifetime is how long a challenge may be solved: enough for an
	// unlucky, slow phone.
	challengeLifetime = 2 * time.Minute
	// leastTolerance is what a careful finger manages on a phone, in pixels.
	leastTolerance = 2
	// picturesAhead is the stock of pictures, about 20 KiB each: one second of
	// drawing.
	picturesAhead = 64
)

// Config is the configuration of the checks. NewConfig derives it from settings.
type Config struct {
	Settings
	// Difficulty is how many zero bits a proof of work needs, MinDifficulty to
	// MaxDifficulty; a Subject's level changes it. 2^18 hashes on average take up to a
	// second on a phone, and minutes of a whole core for a thousand tickets.
	Difficulty int
	// Tolerance is how far off a slide's tile may be, in pixels of a picture 300
	// pixels wide, for a subject without recent failures.
	Tolerance int
	// Pictures is picturesAhead, and BreakerDelay breakerDelay, except in tests.
	Pictures     int
	BreakerDelay time.Duration
	// Hosts are the host names that a verifier's token may come from, in lower case
	// and without a port: those of the shop's pages.
	Hosts []string
}

// NewConfig derives the configuration from settings and the shop's public URL, which
// may be empty.
func NewConfig(set Settings, publicURL string) Config {
	c := Config{Settings: set, Difficulty: 18, Tolerance: 4, Pictures: picturesAhead, BreakerDelay: breakerDelay}
	switch set.HumanCheckStrength {
	case "low":
		c.Difficulty, c.Tolerance = 16, 6
	case "high":
		c.Difficulty, c.Tolerance = 20, 3
	}
	for _, host := range set.VerifierHosts {
		c.Hosts = append(c.Hosts, strings.ToLower(strings.TrimSpace(host)))
	}
	if u, err := url.Parse(publicURL); len(c.Hosts) == 0 && err == nil && u.Hostname() != "" {
		c.Hosts = append(c.Hosts, strings.ToLower(u.Hostname()))
	}
	return c
}

// CheckPages refuses, in addition to Check, a verifier that accepts tokens from any
// page.
func (s Settings) CheckPages(publicURL string) error {
	if s.hasVerifier() && s.Check() == nil && len(NewConfig(s, publicURL).Hosts) == 0 { // else Check has reported the mistake
		return errors.New("--verifier-hosts or --public-url must be set: otherwise the verifier would accept tokens from any page")
	}
	return nil
}
