package outbox

import "time"

// Settings are how long refused events are tried and how long records stay. KeepRecords' minimum is longer than any message
// stays on the bus, so that a record outlives its message; the default is a
// quarter, so that the last campaign's records can be read before the next one.
type Settings struct {
	RetryRefused time.Duration `default:"24h" env:"STAMPEDE_RETRY_REFUSED" help:"How long an event that NATS refuses by itself, such as one too large, is tried again before it is kept as failed. The time of an outage of NATS does not fail an event." min:"1m" max:"168h" rare:""`
	KeepRecords  time.Duration `default:"2160h" env:"STAMPEDE_KEEP_RECORDS" help:"How long to keep dead letters, failed events, alarms that no longer occur, reservations after their session has ended, shopper restrictions, and what shoppers told about themselves for an order after it has ended; 2160h is 90 days. Ended blacklist entries, which contain phones and addresses, are removed after 720h at the latest." min:"168h"`
}
