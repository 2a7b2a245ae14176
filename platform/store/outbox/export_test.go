package outbox

import "time"

// AgeEvents makes EVENTS look older to recall by that much.
func AgeEvents(r *Relay, by time.Duration) { r.margin -= by }

// DieBeforeMark runs f between publishing a window and marking it.
func DieBeforeMark(r *Relay, f func() error) { r.published = f }
