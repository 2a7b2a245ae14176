package config

import "fmt"

// Sockets are the bounds of one user's WebSocket connections.
type Sockets struct {
	MaxUserSockets int `default:"5" env:"STAMPEDE_MAX_USER_SOCKETS" help:"WebSocket connections that one user may have on one instance, 1 to 100: a phone, a tablet, a desktop and two tabs. One more is closed with 1008."`
}

// validate keeps one user from taking many of the instance's places: a push goes
// to each of them while a lock is held.
func (s Sockets) validate() error {
	if s.MaxUserSockets < 1 || s.MaxUserSockets > 100 {
		return fmt.Errorf("--max-user-sockets must be between 1 and 100, not %d", s.MaxUserSockets)
	}
	return nil
}
