package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// abandonedMost is how far an events consumer may be set back, in deliveries
// behind its last one. It equals the number of unacknowledged messages that the
// server allows. A consumer is further behind only when an old message keeps
// failing: redelivering everything since then would cost more than the ack wait
// does.
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
// GRANTS, a work queue, acknowledged messages are gone, so that exactly the
// others are redelivered; on the other streams, messages acknowledged above the
// floor are redelivered too, which every handler must tolerate anyway. No
// stored message is touched.
func (b *Bus) takeBackAbandoned(ctx context.Context) error {
	for _, stream := range []string{streamGrants, streamEvents, streamDelayed} {
		s, err := b.js.Stream(ctx, stream)
		if err != nil {
			return fmt.Errorf("bus: get stream info of %s: %w", stream, err)
		}
		list := s.ListConsumers(ctx)
		for c := range list.Info() {
			behind := c.Delivered.Consumer - min(c.AckFloor.Consumer, c.Delivered.Consumer)
			switch {
			case c.Config.Durable == "" || c.NumAckPending == 0:
				continue
			case stream != streamGrants && behind > abandonedMost:
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
