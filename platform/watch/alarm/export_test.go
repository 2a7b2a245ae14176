package alarm

import "time"

// Hurry makes a notifier retry after first, and poll at the interval every.
func Hurry(n *Notifier, first, every time.Duration) {
	n.first, n.every, n.client = first, every, newClient(attemptTimeout, first, nil)
}

// Impatient makes a notifier, whose pauses are n.first, time out after timeout.
func Impatient(n *Notifier, timeout time.Duration) { n.client = newClient(timeout, n.first, nil) }
