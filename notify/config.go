package notify

import (
	"time"

	"stampede/platform/base/config"
)

// Settings are the bounds of WebSocket connections. The bound per user is small,
// because a push goes to each of the user's sockets under a lock.
type Settings struct {
	MaxSockets int `default:"0" env:"STAMPEDE_MAX_SOCKETS" help:"WebSocket connections that one instance holds, about 17 KiB each. 0: 30,000, or fewer if the limit of open files does not allow more." min:"0" max:"10000000" rare:""`
	MaxPerUser int `name:"max-user-sockets" default:"5" env:"STAMPEDE_MAX_USER_SOCKETS" help:"WebSocket connections that one user may have on one instance: a phone, a tablet, a desktop and two tabs. One more is closed with 1008." min:"1" max:"100" rare:""`
}

// authTimeout is how long a client may take to send its token.
const authTimeout = 5 * time.Second

// maxUnnamed is how many connections may wait for their token, or for the
// client's answer to its refusal, at a time: 10 s each at most. Clients that
// offer a valid token with the handshake, as browsers do, need no such place.
const maxUnnamed = 1000

// unnamedOfAddress is the part of these that one address gets at most: one in four.
const unnamedOfAddress = 4

// Config is the settings, the origins, and values that only tests change.
type Config struct {
	Settings
	Origins     []string      // of other sites whose pages may open a WebSocket
	AuthTimeout time.Duration // authTimeout
	MaxUnnamed  int           // maxUnnamed
}

// NewConfig returns the configuration for settings, and the origins of other sites
// whose pages may open a WebSocket.
func NewConfig(set Settings, origins ...string) Config {
	return Config{Settings: set, Origins: origins, AuthTimeout: authTimeout, MaxUnnamed: maxUnnamed}
}

// DefaultConfig is the configuration without any settings.
func DefaultConfig() Config { return NewConfig(config.Defaults[Settings]()) }
