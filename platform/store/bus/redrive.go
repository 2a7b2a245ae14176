package bus

import (
	"strings"

	"stampede/platform/base/ids"
)

// prefixRedrive starts the subjects of messages that are sent again to one
// consumer alone: redrive.<consumer>.<message id>.<subject>. They lie on
// EVENTS.
const prefixRedrive = "redrive."

// RedriveSubject is where to publish a dead letter so that only the consumer
// that gave up on it gets it, with the subject and the id of the first time.
// The publishing needs an id of its own, or the stream would drop it as a
// duplicate.
func RedriveSubject(consumer, messageID, subject string) string {
	return prefixRedrive + consumer + "." + messageID + "." + subject
}

// OnGrants reports whether a subject lies on GRANTS, whose messages only
// ConsumeGrants gets and which are redriven under the subject that they had.
func OnGrants(subject string) bool { return streamOf(subject) == streamGrants }

// restore undoes RedriveSubject on a received message.
func (h *held) restore() {
	if !strings.HasPrefix(h.Subject, prefixRedrive) {
		return
	}
	parts := strings.SplitN(h.Subject, ".", 4)
	if len(parts) < 4 {
		return
	}
	h.Subject = parts[3]
	// A message that had no id gets none, as in the first place.
	h.ID = ids.ID{}
	if id, err := ids.Parse(parts[2]); err == nil {
		h.ID = id
	}
}
