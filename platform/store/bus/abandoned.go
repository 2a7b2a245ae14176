package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// abandonedMost is how many deliveries behind its last one a consumer of events
// is set back at most. It is what the server lets wait for acknowledgements at a
// time. More lie behind only where an old message keeps failing: sending
// everything since then once more would cost more than the ack wait does.
const abandonedMost = 1000

// takeBackAbandoned makes the shared consumers deliver again at once what an
// earlier process had in hand when it died. It may be called only where nobody
// else can hold a delivery: with the embedded server, before the first consumer
// starts. Elsewhere the ack wait alone tells a dead holder from a slow one.
//
// Without it a restart would find its grants only after their ack wait of 10 s,
// and every Load waits for these grants: the items would stay closed that long.
//
// A consumer goes back to its acknowledgement floor and delivers from there. On
// GRANTS, a work queue, acknowledged messages are gone, so that exactly the
// others come again; on the other streams also what was acknowledged above the
// floor, which every handler has to bear anyway. Nothing stored is touched.
func (b *Bus) takeBackAbandoned(ctx context.Context) error {
	for _, stream := range []string{streamGrants, streamEvents, streamDelayed} {
		s, err := b.js.Stream(ctx, stream)
		if err != nil {
			return fmt.Errorf("bus: look at %s: %w", stream, err)
		}
		list := s.ListConsumers(ctx)
		for c := range list.Info() {
			behind := c.Delivered.Consumer - min(c.AckFloor.Consumer, c.Delivered.Consumer)
			switch {
			case c.Config.Durable == "" || c.NumAckPending == 0:
				continue
			case stream != streamGrants && behind > abandonedMost:
				b.cfg.Log.InfoContext(ctx, "abandoned messages wait for their ack wait", "consumer", c.Name, "behind", behind)
				continue
			}
			if _, err := s.ResetConsumer(ctx, c.Name); err != nil {
				return fmt.Errorf("bus: set consumer %s back to its floor: %w", c.Name, err)
			}
			b.cfg.Log.InfoContext(ctx, "abandoned messages come again at once", "consumer", c.Name, "messages", c.NumAckPending)
		}
		if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
			return fmt.Errorf("bus: list consumers of %s: %w", stream, err)
		}
	}
	return nil
}
