package alarm

import (
	"context"
	"time"
)

// Hurry makes a notifier retry after first, and poll at the interval every; it waits
// neither between two messages nor for a problem to stay over.
func Hurry(n *Notifier, first, every time.Duration) { n.pace = pace{first: first, every: every} }

// Unhurried makes a notifier wait between two messages, and for a problem to stay over.
func Unhurried(n *Notifier, gap, settled time.Duration) { n.pace.gap, n.pace.settled = gap, settled }

// Impatient makes a notifier of a webhook alone time out after timeout.
func Impatient(n *Notifier, hook Webhook, timeout time.Duration) {
	n.tellers = []*teller{newWebhookTeller(hook, timeout, nil)}
}

// Round makes one attempt for each address, and reports to how many there was something to tell.
func Round(ctx context.Context, n *Notifier) (told int, err error) {
	for _, t := range n.tellers {
		due, err := n.tell(ctx, t)
		if err != nil {
			return told, err
		}
		if due {
			told++
		}
	}
	return told, nil
}

// Contain reports whether on-call hours have a minute of the day.
func Contain(hours string, t time.Time) (bool, error) {
	h, err := parseHours(hours)
	return h.contain(t), err
}

// Repeating makes a watch raise a lasting finding again each time.
func Repeating(w *Watch, every time.Duration) *Watch { w.repeat = every; return w }

// Publish publishes the incidents that have no event yet.
var Publish = publish

// Unpublished is what the pulse asks for the loop of the incidents' events.
const Unpublished = unpublished
