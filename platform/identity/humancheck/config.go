package humancheck

import (
	"errors"
	"net/url"
	"strings"
	"time"
)

// Settings are what an operator may set about human checks. Which activity asks for
// which kind is in its plan; AuthHumanCheck says it for logins.
type Settings struct {
	AuthHumanCheck      Kind   `default:"none" enum:"none,pow,slide,verifier" env:"STAMPEDE_AUTH_HUMAN_CHECK" help:"Human check for logins, registrations and SMS codes above the thresholds of --check-after-…: none, pow, slide or verifier."`
	HumanCheckStrength  string `default:"normal" enum:"low,normal,high" env:"STAMPEDE_HUMAN_CHECK_STRENGTH" help:"How hard checks are. A proof of work takes a desktop's browser 0.05 s (low), 0.2 s (normal) or 0.8 s (high), a phone five times as long; a guess at a slide captcha hits once in 11, 17 or 22."`
	ChallengesPerMinute int    `default:"20" env:"STAMPEDE_CHALLENGES_PER_MINUTE" help:"Challenges that one user, or one address before a login, gets in a minute; 0: no limit." min:"0" max:"6000" rare:""`

	VerifierURL     string        `default:"" env:"STAMPEDE_VERIFIER_URL" help:"Address of the siteverify of a service such as Cloudflare Turnstile, e.g. https://challenges.cloudflare.com/turnstile/v0/siteverify (http:// on this machine only). Empty: no verifier."`
	VerifierSiteKey string        `default:"" env:"STAMPEDE_VERIFIER_SITE_KEY" help:"The shop's public key there."`
	VerifierSecret  string        `default:"" env:"STAMPEDE_VERIFIER_SECRET" help:"The shop's secret there." secret:""`
	VerifierHosts   []string      `env:"STAMPEDE_VERIFIER_HOSTS" help:"Host names of the pages that tokens may come from, comma-separated. Empty: the host of --public-url." rare:""`
	VerifierTimeout time.Duration `default:"2s" env:"STAMPEDE_VERIFIER_TIMEOUT" help:"How long the verifier may take to judge a token." min:"100ms" max:"30s" rare:""`
	VerifierDown    DownRule      `default:"refuse" enum:"refuse,pow" env:"STAMPEDE_VERIFIER_DOWN" help:"While the verifier cannot be asked: refuse (all are refused, 503) or pow (a proof of work stands in)." rare:""`
}

// Check returns a sentence about what is wrong.
func (s Settings) Check() error {
	site := s.siteVerify()
	switch {
	case site.on():
		return site.Validate()
	case s.AuthHumanCheck == Verifier:
		return errors.New("--auth-human-check is verifier, but there is none: give --verifier-url, --verifier-site-key and --verifier-secret")
	}
	return nil
}

// siteVerify is the zero value, none, when nothing of the provider is set.
func (s Settings) siteVerify() SiteVerifyConfig {
	if s.VerifierURL == "" && s.VerifierSiteKey == "" && s.VerifierSecret == "" {
		return SiteVerifyConfig{}
	}
	return SiteVerifyConfig{URL: s.VerifierURL, SiteKey: s.VerifierSiteKey, Secret: s.VerifierSecret, Timeout: s.VerifierTimeout}
}

// DownRule is what stands in for a verifier that is down.
type DownRule string

// The rules. There is none that lets everybody through.
const (
	Refuse  DownRule = "refuse" // all are refused: 503
	StandIn DownRule = "pow"    // a proof of work stands in
)

const (
	// challengeLifetime is how long a challenge may be solved: also an unlucky phone
	// is done by then.
	challengeLifetime = 2 * time.Minute
	// picturesAhead are drawn before they are asked for, about 20 KiB each: as many
	// as are drawn in a second.
	picturesAhead = 64
)

// Config is how checks are made. NewConfig makes it of settings.
type Config struct {
	// Difficulty is how many zero bits a proof of work needs, MinDifficulty to
	// MaxDifficulty: 2^18 hashes on average are up to a second on a phone, and minutes
	// of a whole core for a thousand tickets.
	Difficulty int
	// Tolerance is how far off a slide's tile may be, in pixels of a picture 300 wide.
	Tolerance int
	// Pictures is picturesAhead but in tests.
	Pictures int
	// PerMinute is how many challenges one user, or one address before a login, gets
	// in a minute; 0 is no limit.
	PerMinute int
	// Public is the kind for login, registration and SMS codes.
	Public Kind
	// SiteVerify is the verifier's provider; the zero value is none.
	SiteVerify SiteVerifyConfig
	// Hosts are the host names that a verifier's token may come from, in lower case
	// and without a port: those of the shop's pages.
	Hosts []string
	// Down is what happens while the verifier cannot be asked.
	Down DownRule
}

// NewConfig is the configuration that settings ask for in a shop that is reached at
// a public URL, which may be empty.
func NewConfig(set Settings, publicURL string) Config {
	c := Config{
		Difficulty: 18, Tolerance: 4, Pictures: picturesAhead, PerMinute: set.ChallengesPerMinute,
		Public: set.AuthHumanCheck, SiteVerify: set.siteVerify(), Down: set.VerifierDown,
	}
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

// CheckPages refuses, beside what Check finds, a verifier whose tokens may come from
// any page.
func (s Settings) CheckPages(publicURL string) error {
	if s.Check() == nil { // else Check has reported the mistake
		return NewConfig(s, publicURL).Validate()
	}
	return nil
}

// Validate refuses a verifier whose tokens may come from any page.
func (c Config) Validate() error {
	if c.SiteVerify.on() && len(c.Hosts) == 0 {
		return errors.New("--verifier-hosts or --public-url must say which pages a verifier's token may come from, else those of any page would do")
	}
	return nil
}
