package alarm

import "time"

// Hurry makes a notifier try again after first, and look each every.
func Hurry(n *Notifier, first, every time.Duration) {
	n.first, n.every, n.breaker = first, every, newBreaker(first)
}

// Impatient makes a notifier give up on a receiver after timeout.
func Impatient(n *Notifier, timeout time.Duration) { n.client.Timeout = timeout }
