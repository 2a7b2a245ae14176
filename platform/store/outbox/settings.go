package outbox

import "time"

// Settings are how long records stay. The bound is longer than anything on the bus,
// so that a record is not gone before what it is about; the default is a quarter, so
// that the last campaign's can be read before the next one.
type Settings struct {
	KeepRecords time.Duration `default:"2160h" env:"STAMPEDE_KEEP_RECORDS" help:"How long dead letters, alarms that are not seen any more, reservations after the end of their session, and what restricted shoppers are kept; 2160h are 90 days. Ended blacklist entries, which name phones and addresses, go after 720h at the latest." min:"168h"`
}
