package qrlogin

import (
	"fmt"
	"net/url"
	"time"

	"stampede/platform/ratelimit"
)

// Config sets the bounds of QR logins.
type Config struct {
	// BaseURL is how phones reach the shop; the picture shows an address below it.
	BaseURL string
	// Lifetime is for how long a code can be scanned and confirmed.
	Lifetime time.Duration
	// ClaimWithin is the least time that the asking device has for fetching its
	// tokens after the confirmation, also when the code expires before.
	ClaimWithin time.Duration
	// MaxWaiting bounds the polls that wait on one instance, some KiB each; a poll
	// beyond it is answered at once. They take no place among the requests that are
	// worked on at once.
	MaxWaiting int
	// RecheckEvery is what a lost broadcast costs a poll that waits.
	RecheckEvery time.Duration

	// PerAddress limits how many codes one address may ask for, and PicturesPerAddress
	// how often it may have one drawn, which takes a millisecond.
	PerAddress, PicturesPerAddress ratelimit.Rule
	// Guesses limits the wrong secrets for one code from one address; the right one
	// is refused as well then. It has 256 bits: the limit is about the load.
	Guesses ratelimit.Rule
	// Polls limits how often the right secret is used for one code.
	Polls ratelimit.Rule
	// PerUser limits the scans and decisions of one user.
	PerUser ratelimit.Rule
}

// DefaultConfig returns the values for a shop at an address.
func DefaultConfig(baseURL string) Config {
	return Config{
		BaseURL: baseURL, Lifetime: 2 * time.Minute, ClaimWithin: 30 * time.Second, MaxWaiting: 1000, RecheckEvery: 2 * time.Second,
		PerAddress:         ratelimit.Rule{Name: "qr-login", Count: 20, Per: time.Minute}, // an office of desktops behind one address
		PicturesPerAddress: ratelimit.Rule{Name: "qr-picture", Count: 60, Per: time.Minute},
		Guesses:            ratelimit.Rule{Name: "qr-guess", Count: 10, Per: time.Minute},
		Polls:              ratelimit.Rule{Name: "qr-poll", Count: 120, Per: time.Minute}, // every half second, twice what poll_after_ms asks for
		PerUser:            ratelimit.Rule{Name: "qr-scan", Count: 20, Per: time.Minute},
	}
}

// maxURLBytes keeps the code coarse enough for a phone's camera: with the id behind
// it the picture has 61 modules of 3 pixels. A usual host name has 37 of 5.
const maxURLBytes = 200

// Validate returns an error that names the first setting out of range.
func (c Config) Validate() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return fmt.Errorf("qrlogin: the base URL must be like https://sale.example.com, not %q", c.BaseURL)
	case len(c.BaseURL) > maxURLBytes:
		return fmt.Errorf("qrlogin: a base URL of %d bytes makes a picture too fine to scan; at most %d", len(c.BaseURL), maxURLBytes)
	case c.Lifetime < time.Second || c.Lifetime > 10*time.Minute:
		return fmt.Errorf("qrlogin: a code may live for 1s to 10m, not %s", c.Lifetime)
	case c.ClaimWithin < time.Second || c.ClaimWithin > time.Minute:
		return fmt.Errorf("qrlogin: tokens may be fetched within 1s to 1m, not %s", c.ClaimWithin)
	case c.MaxWaiting < 1:
		return fmt.Errorf("qrlogin: at least one poll must be allowed to wait, not %d", c.MaxWaiting)
	case c.RecheckEvery < 100*time.Millisecond:
		return fmt.Errorf("qrlogin: a poll that waits may look again every 100ms at most, not every %s", c.RecheckEvery)
	}
	for _, r := range []ratelimit.Rule{c.PerAddress, c.PicturesPerAddress, c.Guesses, c.Polls, c.PerUser} {
		if err := r.Validate(); err != nil {
			return err
		}
	}
	return nil
}
