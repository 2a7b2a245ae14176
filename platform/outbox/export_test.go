package outbox

// DieBeforeMark runs f between publishing a window and marking it.
func DieBeforeMark(r *Relay, f func() error) { r.published = f }
