package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// deadlineKey is where the metadata of GRANTS keeps the publish deadline of the
// instance that started last.
const deadlineKey = "stampede-publish-deadline"

// compareDeadlines warns if other instances run with another PublishDeadline. A
// Load waits for the publishers of all instances by its own, so with a longer
// one elsewhere it may count while their grants are still on their way. It only
// warns, because an instance that died a moment ago cannot be told from a live
// one, and a start must not depend on that.
func (b *Bus) compareDeadlines(ctx context.Context) error {
	s, err := b.js.Stream(ctx, streamGrants)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bus: get stream info of %s: %w", streamGrants, err)
	}
	theirs, ours := s.CachedInfo().Config.Metadata[deadlineKey], b.cfg.PublishDeadline.String()
	if theirs == "" || theirs == ours {
		return nil
	}
	c, err := s.Consumer(ctx, grantsConsumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bus: get consumer %s: %w", grantsConsumer, err)
	}
	// A live writer waits for messages or handles some.
	if info := c.CachedInfo(); info.NumWaiting > 0 || info.NumAckPending > 0 {
		b.cfg.Log.ErrorContext(ctx, "instances have different publish deadlines, start all of them with one --publish-deadline",
			"ours", ours, "theirs", theirs)
	}
	return nil
}
