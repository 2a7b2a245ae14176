package notify

import (
	"fmt"
	"time"
)

// Config sets the hub's bounds.
type Config struct {
	// QueueLen is how many messages wait for one socket before it counts as
	// slow. An order changes about four times in its life; 16 leaves room for
	// several orders at once.
	QueueLen int
	// WriteTimeout is how long one write may take before the socket counts as
	// slow.
	WriteTimeout time.Duration
	// PingEvery is the interval at which each idle socket is pinged, below the
	// 60 s after which common proxies cut silent connections.
	PingEvery time.Duration
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
	return Config{
		QueueLen: 16, WriteTimeout: 5 * time.Second, PingEvery: 30 * time.Second,
		AuthTimeout: 5 * time.Second, MaxPerUser: 5, MaxSockets: 30_000,
	}
}

// Validate returns an error that names the first setting out of range.
func (c Config) Validate() error {
	switch {
	case c.QueueLen < 1 || c.QueueLen > 1024:
		return fmt.Errorf("notify: the queue of a socket holds 1 to 1024 messages, not %d", c.QueueLen)
	case c.WriteTimeout <= 0 || c.AuthTimeout <= 0 || c.PingEvery < time.Second:
		return fmt.Errorf("notify: time-outs must be positive and pings at least a second apart")
	case c.MaxPerUser < 1 || c.MaxSockets < 1:
		return fmt.Errorf("notify: at least one socket must be allowed")
	}
	return nil
}
