package qrlogin

import (
	"fmt"
	"net/url"
	"time"

	"stampede/platform/edge/ratelimit"
)

const (
	// codeLifetime is how long a code can be scanned and confirmed.
	codeLifetime = 2 * time.Minute
	// claimWithin is the least time that the asking device has to fetch its tokens
	// after the confirmation, even if the code expires before.
	claimWithin = 30 * time.Second
)

// Config is where QR logins lead, and their bounds, which are fixed except in tests.
type Config struct {
	// BaseURL is how phones reach the shop; the picture shows an address below it.
	BaseURL string
	// PerAddress limits how many codes one address may request, and
	// PicturesPerAddress how many pictures, each of which takes a millisecond to
	// draw.
	PerAddress, PicturesPerAddress ratelimit.Rule
	// Guesses limits the wrong secrets for one code from one address; above it the
	// right one is refused as well. A secret has 256 bits: the limit bounds the
	// load.
	Guesses ratelimit.Rule
	// Polls limits how often the right secret is used for one code.
	Polls ratelimit.Rule
	// PerUser limits the scans and decisions of one user.
	PerUser ratelimit.Rule
}

// DefaultConfig returns the values for a shop at an address.
func DefaultConfig(baseURL string) Config {
	return Config{
		BaseURL:            baseURL,
		PerAddress:         ratelimit.Rule{Name: "qr-login", Count: 20, Per: time.Minute}, // an office of desktops behind one address
		PicturesPerAddress: ratelimit.Rule{Name: "qr-picture", Count: 60, Per: time.Minute},
		Guesses:            ratelimit.Rule{Name: "qr-guess", Count: 10, Per: time.Minute},
		Polls:              ratelimit.Rule{Name: "qr-poll", Count: 120, Per: time.Minute}, // every half second, twice the rate of poll_after_ms
		PerUser:            ratelimit.Rule{Name: "qr-scan", Count: 20, Per: time.Minute},
	}
}

// maxURLBytes keeps the code coarse enough for a phone's camera: with the id
// appended the picture has 61 modules of 3 pixels. A usual host name gives 37 of 5.
const maxURLBytes = 200

// Validate refuses a URL that a phone cannot scan.
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
