package outbox

import "time"

// AgeEvents lets recall take EVENTS for as much older.
func AgeEvents(r *Relay, by time.Duration) { r.margin -= by }

// DieBeforeMark runs f between publishing a window and marking it.
func DieBeforeMark(r *Relay, f func() error) { r.published = f }
