package alarm

import "time"

// Hurry makes a notifier try again after first, and look each every.
func Hurry(n *Notifier, first, every time.Duration) {
	n.first, n.every, n.client = first, every, newClient(attemptTimeout, first, nil)
}

// Impatient makes a notifier, whose pauses are n.first, give up on a receiver after
// timeout.
func Impatient(n *Notifier, timeout time.Duration) { n.client = newClient(timeout, n.first, nil) }
