package alarm

import "time"

// Hurry makes a notifier try again after first, and look each every.
func Hurry(n *Notifier, first, every time.Duration) { n.first, n.every = first, every }
