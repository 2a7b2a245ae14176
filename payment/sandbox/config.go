package sandbox

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Settings say whether the bank is served.
type Settings struct {
	SandboxBank bool `env:"STAMPEDE_SANDBOX_BANK" help:"Serve the sandbox bank and pay through it. Never on a real shop: anyone can pay there without money." practice:""`
	// BankURL is for bench, whose bank shall cost the shop no more than a real one.
	BankURL string `name:"sandbox-bank-url" env:"STAMPEDE_SANDBOX_BANK_URL" hidden:"" help:"Pay through the sandbox bank of the stampede at this address, which has the same signing key." practice:""`
}

// merchantName is what the bank's page shows.
const merchantName = "Stampede"

// callbackAttempts is how often a callback is sent at most, about as often as
// real providers do within the first minutes.
const callbackAttempts = 8

// Config is the bank's configuration when it does not misbehave.
type Config struct {
	// Merchant is the shop's number at the bank.
	Merchant string
	// Secret is shared by bank and merchant; at least minSecretBytes.
	Secret []byte
	// PublicURL is where shoppers reach the bank, without a trailing slash;
	// the pay URL begins with it.
	PublicURL string
	// CallbackBackoff is the wait after the first failed attempt; it doubles
	// with each, up to callbackBackoffMost. Defaults to 1 s: callbackAttempts then
	// span about two minutes, longer than a restart takes.
	CallbackBackoff time.Duration
	// RefundDelay is how long a refund stays in processing. Defaults to 500 ms,
	// enough for a person to see that it is not instant.
	RefundDelay time.Duration
	// Poll is how often the worker checks for due work when nothing woke it.
	// Defaults to 250 ms.
	Poll time.Duration
	// Parallel is how many callbacks are under way concurrently. Defaults to 16:
	// more than the merchant's connection budget would only queue there.
	Parallel int
}

// minSecretBytes is the output of SHA-256, below which guessing is cheaper.
const minSecretBytes = 32

// DefaultConfig returns the defaults; Merchant, Secret and PublicURL have to
// be set by the caller.
func DefaultConfig() Config {
	return Config{
		CallbackBackoff: time.Second, RefundDelay: 500 * time.Millisecond, Poll: 250 * time.Millisecond, Parallel: 16,
	}
}

// Validate returns every fault of the configuration in one error.
func (c Config) Validate() error {
	var errs []error
	if c.Merchant == "" {
		errs = append(errs, errors.New("sandbox: the bank needs a merchant number"))
	}
	if len(c.Secret) < minSecretBytes {
		errs = append(errs, fmt.Errorf("sandbox: the secret has %d bytes, want at least %d", len(c.Secret), minSecretBytes))
	}
	if err := checkURL(c.PublicURL); err != nil {
		errs = append(errs, fmt.Errorf("sandbox: public URL: %w", err))
	}
	return errors.Join(errs...)
}

// maxURLBytes bounds an address that a request contains.
const maxURLBytes = 2048

// checkURL accepts only absolute http and https addresses with a host: the bank
// sends requests there and puts them into its page.
func checkURL(raw string) error {
	if len(raw) > maxURLBytes {
		return fmt.Errorf("longer than %d bytes", maxURLBytes)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return err
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return errors.New("not an absolute http or https address without user and password")
	}
	return nil
}

// Behaviour is how the bank treats one payment.
type Behaviour string

// The behaviours. All but the first are faults that real banks have had.
const (
	Normal      Behaviour = "normal"
	Duplicate   Behaviour = "duplicate"    // the callback is sent twice, at the same moment
	WrongAmount Behaviour = "wrong_amount" // the callback states one unit too much; a query returns the true amount
	Underpaid   Behaviour = "underpaid"    // one unit too little was really taken, and every answer says so
	Late        Behaviour = "late"         // the money moves now, the callback is sent delay_seconds later
	Never       Behaviour = "never"        // the money moves, no callback is sent
	RefundFails Behaviour = "refund_fails" // a refund of this payment fails permanently
	// A refund of this payment succeeds, and delay_seconds later the money comes back to the merchant.
	RefundBounces Behaviour = "refund_bounces"
	// The money moves now, and for delay_seconds the merchant learns nothing of it: no callback is sent, and no call
	// about this payment is answered.
	Silent Behaviour = "silent"
	// The shopper's bank takes the money back delay_seconds after the payment, and that long afterwards the merchant wins
	// it or has lost it. Only companies have chargebacks, the bank's own protocol has none.
	ChargebackWon  Behaviour = "chargeback_won"
	ChargebackLost Behaviour = "chargeback_lost"
)

// behaviours are all of them, as the page lists them.
var behaviours = []Behaviour{Normal, Duplicate, WrongAmount, Underpaid, Late, Never, Silent, RefundFails, RefundBounces, ChargebackWon, ChargebackLost}

// Valid reports whether b is one of the behaviours.
func (b Behaviour) Valid() bool { return slices.Contains(behaviours, b) }

// maxDelaySeconds bounds a late callback: a day is longer than any order lives.
const maxDelaySeconds = 86_400
