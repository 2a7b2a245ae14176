package loadgen

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"time"
)

// Config configures a run.
type Config struct {
	CrowdConfig

	// Rate is attempts per second; 0 is as fast as the connections allow.
	Rate float64
	// PayShare is the share of winners that pay, 0 to 1.
	PayShare float64
	// Sockets is how many shoppers also hold a WebSocket; -1 means all, as far
	// as this process's file descriptors allow.
	Sockets int
	// Settle bounds the wait for winners' orders and payments.
	Settle time.Duration
	// Progress receives the progress bar; nil for none.
	Progress io.Writer
	// Terminal redraws the bar in place; otherwise a line is written every few
	// seconds.
	Terminal bool
	// Observe is called with a snapshot several times a second, from one
	// goroutine; nil for none.
	Observe func(Snapshot)

	followed int // shoppers at a time, see mostFollowed
}

// DefaultConfig returns the defaults of `rush`.
func DefaultConfig() Config {
	return Config{
		CrowdConfig: CrowdConfig{BaseURL: "http://127.0.0.1:8080", Shoppers: 1000, FirstUser: 1_000_000, Connections: 256},
		PayShare:    0.8, Sockets: -1, Settle: time.Minute, followed: mostFollowed,
	}
}

// Validate returns one sentence about the first wrong setting.
func (c Config) Validate() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return fmt.Errorf("the server's URL must be like http://127.0.0.1:8080, not %q", c.BaseURL)
	case c.ItemID <= 0:
		return errors.New("name the item to rush with --item ID; GET /api/v1/sessions lists the items on sale")
	case c.Shoppers < 1 || c.Shoppers > 10_000_000:
		return fmt.Errorf("the number of shoppers must be between 1 and 10000000, not %d", c.Shoppers)
	case c.Rate < 0 || math.IsNaN(c.Rate) || math.IsInf(c.Rate, 0):
		return fmt.Errorf("the rate must be attempts per second or max")
	case c.PayShare < 0 || c.PayShare > 1 || math.IsNaN(c.PayShare):
		return fmt.Errorf("the share that pays must be between 0%% and 100%%")
	case c.Connections < 1 || c.Connections > 10_000:
		return fmt.Errorf("the number of connections must be between 1 and 10000, not %d", c.Connections)
	case c.Settle <= 0:
		return fmt.Errorf("the time to settle must be positive")
	case c.FirstUser <= 0:
		return fmt.Errorf("user ids must be positive")
	case c.Token == nil:
		return errors.New("loadgen: Token is required")
	}
	return nil
}
