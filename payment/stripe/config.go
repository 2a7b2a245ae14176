package stripe

import (
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Settings are the shop's keys at Stripe. Without a secret key the provider is absent.
type Settings struct {
	StripeKey     string   `env:"STAMPEDE_STRIPE_KEY" help:"The shop's secret key at Stripe (sk_… or rk_…); --help-all lists what goes with it. Empty: no Stripe." secret:""`
	StripeAccount string   `env:"STAMPEDE_STRIPE_ACCOUNT" help:"The shop's account at Stripe (acct_…)." rare:""`
	StripeSecrets []string `env:"STAMPEDE_STRIPE_SECRETS" help:"The signing secrets of the webhook endpoint (whsec_…), comma-separated; two while one is rolled." rare:"" secret:""`
	StripeURL     string   `default:"https://api.stripe.com" env:"STAMPEDE_STRIPE_URL" help:"Where Stripe is reached." rare:""`
}

// On reports whether the shop takes Stripe.
func (s Settings) On() bool { return s.StripeKey != "" }

// Check returns an error that names the wrong setting.
func (s Settings) Check() error {
	if !s.On() {
		return nil
	}
	return s.Config().Validate()
}

// Config is the client's configuration with these settings.
func (s Settings) Config() Config {
	c := Config{Key: s.StripeKey, Account: s.StripeAccount, URL: s.StripeURL}
	for _, secret := range s.StripeSecrets {
		c.Secrets = append(c.Secrets, strings.TrimSpace(secret))
	}
	return c
}

// Config is the configuration of a Client.
type Config struct {
	Key     string
	Account string
	Secrets []string // of the webhook endpoint
	URL     string   // without a trailing slash
	Backoff time.Duration
	Metrics prometheus.Registerer
}

var keyPattern = regexp.MustCompile(`^(?:sk|rk)_(live|test)_\w+$`)

// live reports whether the key moves real money.
func (c Config) live() bool {
	m := keyPattern.FindStringSubmatch(c.Key)
	return len(m) > 0 && m[1] == "live"
}

// Validate returns every fault of the configuration in one error. It shows no secret.
func (c Config) Validate() error {
	var errs []error
	if !keyPattern.MatchString(c.Key) {
		errs = append(errs, errors.New("--stripe-key is a secret key, which begins with sk_live_, sk_test_, rk_live_ or rk_test_"))
	}
	if !strings.HasPrefix(c.Account, "acct_") {
		errs = append(errs, errors.New("--stripe-key needs --stripe-account acct_… beside it"))
	}
	if len(c.Secrets) == 0 {
		errs = append(errs, errors.New("--stripe-key needs --stripe-secrets whsec_… beside it, to believe Stripe's callbacks"))
	}
	for _, s := range c.Secrets {
		if !strings.HasPrefix(s, "whsec_") {
			errs = append(errs, errors.New("--stripe-secrets: a signing secret begins with whsec_"))
		}
	}
	if c.URL == "" {
		errs = append(errs, errors.New("--stripe-url is empty"))
	}
	return errors.Join(errs...)
}
