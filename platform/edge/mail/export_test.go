package mail

import "time"

// NewWithin is New with another time-out.
func NewWithin(set Settings, deps Deps, timeout time.Duration) (*Client, error) {
	return newClient(set, deps, timeout)
}
