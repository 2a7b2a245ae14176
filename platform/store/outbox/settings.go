package outbox

import "time"

// Settings are how long records stay. The minimum is longer than any message
// stays on the bus, so that a record outlives its message; the default is a
// quarter, so that the last campaign's records can be read before the next one.
type Settings struct {
	KeepRecords time.Duration `default:"2160h" env:"STAMPEDE_KEEP_RECORDS" help:"How long to keep dead letters, alarms that no longer occur, reservations after their session has ended, and shopper restrictions; 2160h is 90 days. Ended blacklist entries, which contain phones and addresses, are removed after 720h at the latest." min:"168h"`
}
