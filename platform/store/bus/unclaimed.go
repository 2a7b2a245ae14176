package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// unclaimedAfter is how long a shared consumer of another version must have
// been idle before it counts as unclaimed. An instance that is alive waits for
// messages, except while it handles a batch: 16 messages of 30 s at most.
const unclaimedAfter = 10 * time.Minute

// removeUnclaimed deletes the shared consumers on EVENTS that this version does
// not have and no instance uses: those of a release that renamed or removed
// them, or that was rolled back. EVENTS would keep every later message for
// them, fill, and refuse all publishers.
//
// With the embedded server no other process can use one. Otherwise an instance
// of another version may; one whose consumer is deleted nevertheless creates it
// again and gets the events anew, which its inbox tolerates.
func (b *Bus) removeUnclaimed(ctx context.Context) error {
	if !b.complete.Load() {
		return nil // this version's consumers are not known yet
	}
	s, err := b.stream(ctx, streamEvents)
	if err != nil {
		return err
	}
	list := s.ListConsumers(ctx)
	for c := range list.Info() {
		if !b.unclaimed(c, time.Now()) {
			continue
		}
		if err := s.DeleteConsumer(ctx, c.Name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("bus: delete unclaimed consumer %s: %w", c.Name, err)
		}
		b.cfg.Log.WarnContext(ctx, "unclaimed consumer deleted", "consumer", c.Name, "unhandled", c.NumPending+uint64(max(c.NumAckPending, 0))) //nolint:gosec // not negative
	}
	if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return fmt.Errorf("bus: list consumers of %s: %w", streamEvents, err)
	}
	return nil
}

// unclaimed reports whether no instance uses a consumer on EVENTS.
func (b *Bus) unclaimed(c *jetstream.ConsumerInfo, now time.Time) bool {
	if _, ours := b.subscribed.Load(c.Name); ours || c.Config.Durable == "" {
		return false
	}
	if b.cfg.Embedded != nil {
		return true
	}
	used := c.Created
	for _, at := range []*time.Time{c.Delivered.Last, c.AckFloor.Last} {
		if at != nil && at.After(used) {
			used = *at
		}
	}
	return c.NumWaiting == 0 && now.Sub(used) > unclaimedAfter
}

// abandonedMost is how far an events consumer may be set back, in deliveries
// behind its last one. The instances handle some hundred messages at a time, so
// that a consumer is further behind only when an old message keeps failing:
// redelivering everything since then would cost more than the ack wait does.
const abandonedMost = 1000

// takeBackAbandoned makes the shared consumers immediately redeliver the
// messages that an earlier process was handling when it died. Call it only
// where no other process can have a delivery in progress: with the embedded
// server, before the first consumer starts. Elsewhere only the ack wait tells a
// dead process from a slow one.
//
// Without it a restarted process would get its grants only after their ack wait
// of 10 s, and every Load waits for these grants: the items would stay closed
// that long.
//
// A consumer goes back to its acknowledgement floor and delivers from there. On
// a queue, acknowledged messages are gone, so that exactly the others are redelivered; on the other streams, messages acknowledged above the
// floor are redelivered too, which every handler must tolerate anyway. No
// stored message is touched.
func (b *Bus) takeBackAbandoned(ctx context.Context) error {
	for _, cfg := range b.streamConfigs() {
		stream, queue := cfg.Name, cfg.Retention == jetstream.WorkQueuePolicy
		s, err := b.stream(ctx, stream)
		if err != nil {
			return err
		}
		list := s.ListConsumers(ctx)
		for c := range list.Info() {
			behind := c.Delivered.Consumer - min(c.AckFloor.Consumer, c.Delivered.Consumer)
			switch {
			case c.Config.Durable == "" || c.NumAckPending == 0:
				continue
			case !queue && behind > abandonedMost:
				b.cfg.Log.InfoContext(ctx, "abandoned messages are redelivered after their ack wait", "consumer", c.Name, "behind", behind)
				continue
			}
			if _, err := s.ResetConsumer(ctx, c.Name); err != nil {
				return fmt.Errorf("bus: set consumer %s back to its floor: %w", c.Name, err)
			}
			b.cfg.Log.InfoContext(ctx, "abandoned messages are redelivered now", "consumer", c.Name, "messages", c.NumAckPending)
		}
		if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
			return fmt.Errorf("bus: list consumers of %s: %w", stream, err)
		}
	}
	return nil
}
