package outbox

import "time"

// AgeEvents makes EVENTS look older to recall by that much.
func AgeEvents(r *Relay, by time.Duration) { r.margin -= by }

// Patient stops a relay only when it has sent everything, however slow the machine.
func Patient(r *Relay) { r.grace = time.Hour }

// NeverPoll leaves a relay its wake-ups alone.
func NeverPoll(r *Relay) { r.poll = time.Hour }

// DieBeforeMark runs f between publishing a window and marking it.
func DieBeforeMark(r *Relay, f func() error) { r.published = f }

// RetryRefused tries refused events again after pause instead of a minute, and looks
// for due ones all the time.
func RetryRefused(r *Relay, pause time.Duration) { r.retryFirst, r.retryEvery = pause, 0 }
