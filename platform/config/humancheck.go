package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"stampede/platform/humancheck"
)

// HumanCheck are the settings of human checks. Which activity asks for which kind
// is the operator's, in its plan; --auth-human-check says it for logins.
type HumanCheck struct {
	HumanCheckDifficulty int           `default:"18" env:"STAMPEDE_HUMAN_CHECK_DIFFICULTY" help:"Leading zero bits of a proof of work, 8 to 26. 18 are 262,144 hashes on average: 0.2 s in a desktop's browser, up to 1 s on a phone. Each bit more doubles it."`
	HumanCheckLifetime   time.Duration `default:"2m" env:"STAMPEDE_HUMAN_CHECK_LIFETIME" help:"How long a challenge may be solved, as a duration between 10s and 30m."`
	SlideTolerance       int           `default:"4" env:"STAMPEDE_SLIDE_TOLERANCE" help:"How far off the tile of a slide captcha may be, 1 to 20 pixels of a picture 300 wide. With 4 a guess hits once in 17."`
	SlidePictures        int           `default:"64" env:"STAMPEDE_SLIDE_PICTURES" help:"Slide captchas that are drawn ahead, 1 to 4096, about 20 KiB each."`
	ChallengesPerMinute  int           `default:"20" env:"STAMPEDE_CHALLENGES_PER_MINUTE" help:"Challenges that one user, or one address before a login, gets in a minute, at most 6000; 0: no limit."`

	VerifierURL     string        `default:"" env:"STAMPEDE_VERIFIER_URL" help:"Address of the siteverify of a service such as Cloudflare Turnstile, e.g. https://challenges.cloudflare.com/turnstile/v0/siteverify (http:// on this machine only). Empty: no verifier."`
	VerifierSiteKey string        `default:"" env:"STAMPEDE_VERIFIER_SITE_KEY" help:"The shop's public key there."`
	VerifierSecret  string        `default:"" env:"STAMPEDE_VERIFIER_SECRET" help:"The shop's secret there." secret:""`
	VerifierHosts   []string      `env:"STAMPEDE_VERIFIER_HOSTS" help:"Host names of the pages that tokens may come from, comma-separated. Empty: the host of --public-url."`
	VerifierTimeout time.Duration `default:"2s" env:"STAMPEDE_VERIFIER_TIMEOUT" help:"How long the verifier may take to judge a token, as a duration between 100ms and 30s."`
	VerifierDown    string        `default:"refuse" enum:"refuse,pow" env:"STAMPEDE_VERIFIER_DOWN" help:"While the verifier cannot be asked: refuse (nobody passes, 503) or pow (a proof of work stands in)."`
}

// Human returns the settings of human checks as their service takes them.
func (s Server) Human() humancheck.Config {
	h := s.HumanCheck
	hosts := make([]string, 0, len(h.VerifierHosts))
	for _, host := range h.VerifierHosts {
		hosts = append(hosts, strings.ToLower(strings.TrimSpace(host)))
	}
	if u, err := url.Parse(s.PublicURL); len(hosts) == 0 && err == nil && u.Hostname() != "" {
		hosts = append(hosts, strings.ToLower(u.Hostname()))
	}
	return humancheck.Config{
		Difficulty: h.HumanCheckDifficulty, Lifetime: h.HumanCheckLifetime, Tolerance: h.SlideTolerance, Pictures: h.SlidePictures,
		PerMinute: h.ChallengesPerMinute, Public: humancheck.Kind(s.AuthHumanCheck), Hosts: hosts, Down: humancheck.DownRule(h.VerifierDown),
		SiteVerify: h.siteVerify(),
	}
}

// siteVerify is the zero value, none, when nothing of the provider is set.
func (h HumanCheck) siteVerify() humancheck.SiteVerifyConfig {
	if h.VerifierURL == "" && h.VerifierSiteKey == "" && h.VerifierSecret == "" {
		return humancheck.SiteVerifyConfig{}
	}
	return humancheck.SiteVerifyConfig{URL: h.VerifierURL, SiteKey: h.VerifierSiteKey, Secret: h.VerifierSecret, Timeout: h.VerifierTimeout}
}

// validateHuman returns a sentence about the first setting that is wrong, and one
// about the time-out.
func (s Server) validateHuman() error {
	err := s.Human().Validate()
	if h := s.HumanCheck; h.VerifierTimeout < 100*time.Millisecond || h.VerifierTimeout > 30*time.Second {
		err = errors.Join(err, fmt.Errorf("--verifier-timeout must be between 100ms and 30s, not %s", h.VerifierTimeout))
	}
	return err
}
