package notify

import (
	"errors"
	"time"
)

// Config sets the hub's bounds.
type Config struct {
	// AuthTimeout is how long a client may take to send its token.
	AuthTimeout time.Duration
	// MaxPerUser bounds the sockets of one user on this instance: a phone, a
	// tablet, a desktop and two tabs.
	MaxPerUser int
	// MaxSockets bounds all sockets of this instance; at 17 KiB each the default
	// is about 0.5 GiB.
	MaxSockets int
	// OriginPatterns are hosts other than our own whose pages may connect.
	OriginPatterns []string
}

// DefaultConfig returns the values that suit one small machine.
func DefaultConfig() Config {
	return Config{AuthTimeout: 5 * time.Second, MaxPerUser: 5, MaxSockets: 30_000}
}

// Validate returns an error that names the first setting out of range.
func (c Config) Validate() error {
	switch {
	case c.AuthTimeout <= 0:
		return errors.New("notify: the time to send a token must be positive")
	case c.MaxPerUser < 1 || c.MaxSockets < 1:
		return errors.New("notify: at least one socket must be allowed")
	}
	return nil
}
