package bus

import (
	"strings"

	"stampede/platform/base/ids"
)

// prefixRedrive starts the subjects of messages that are redriven to one
// consumer only: redrive.<consumer>.<message id>.<subject>. They are on EVENTS.
const prefixRedrive = "redrive."

// RedriveSubject returns the subject on which to publish a dead letter so that
// only the consumer that gave up on it gets it, with its original subject and
// id. Publish it under a new id, or the stream drops it as a duplicate.
func RedriveSubject(consumer, messageID, subject string) string {
	return prefixRedrive + consumer + "." + messageID + "." + subject
}

// OnGrants reports whether a subject is on GRANTS, whose messages only
// ConsumeGrants gets and which are redriven under their original subject.
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
	// A message that had no id gets none again.
	h.ID = ids.ID{}
	if id, err := ids.Parse(parts[2]); err == nil {
		h.ID = id
	}
}
