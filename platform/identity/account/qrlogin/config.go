package qrlogin

import (
	"fmt"
	"net/url"
	"time"

	"stampede/platform/edge/ratelimit"
)

const (
	// codeLifetime is for how long a code can be scanned and confirmed.
	codeLifetime = 2 * time.Minute
	// claimWithin is the least time that the asking device has for fetching its
	// tokens after the confirmation, also when the code expires before.
	claimWithin = 30 * time.Second
)

// Config is where QR logins lead, and their bounds, which are fixed but in tests.
type Config struct {
	// BaseURL is how phones reach the shop; the picture shows an address below it.
	BaseURL string
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
		BaseURL: baseURL, MaxWaiting: 1000, RecheckEvery: 2 * time.Second,
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

// Validate refuses an address that no phone can read off a picture.
func (c Config) Validate() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return fmt.Errorf("qrlogin: the base URL must be like https://sale.example.com, not %q", c.BaseURL)
	case len(c.BaseURL) > maxURLBytes:
		return fmt.Errorf("qrlogin: a base URL of %d bytes makes a picture too fine to scan; at most %d", len(c.BaseURL), maxURLBytes)
	}
	return nil
}
