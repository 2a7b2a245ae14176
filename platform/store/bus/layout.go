package bus

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// An event's payload is JSON, layout 1. Fields may be added to it; a version that
// changes it so that older ones would misread it puts the number of its layout
// in front, one byte from 2 to 31, with which no JSON begins.

// layoutOf returns the layout of an event's payload.
func layoutOf(data []byte) int {
	if len(data) > 0 && data[0] >= 2 && data[0] < ' ' {
		return int(data[0])
	}
	return 1
}

// ErrNewer is the cause with which DeadLetters gets an event in the layout of a
// newer version. It stays on the stream and is not to be kept.
var ErrNewer = errors.New("bus: event in the layout of a newer version")

// newerEvery is how often a consumer reports that it leaves events to a newer
// version.
const newerEvery = 30 * time.Second

// leave returns an event to the stream that only a newer version can read. During
// a rolling upgrade half of the instances are of that version, so a few
// deliveries reach one.
func (c *consumer) leave(ctx context.Context, h *held) {
	if time.Since(c.reported) > newerEvery {
		c.reported = time.Now()
		cause := fmt.Errorf("%w: layout %d, this version reads up to %d", ErrNewer, layoutOf(h.Data), max(c.sub.Layout, 1))
		c.log(h).WarnContext(ctx, "event of a newer version left on the stream", "error", cause)
		if c.dead != nil {
			if err := c.dead(ctx, c.sub.Name, h.Msg, cause); err != nil {
				c.log(h).WarnContext(ctx, "event of a newer version not reported", "error", err)
			}
		}
	}
	c.count("newer")
	if c.sub.PerInstance {
		return // never redelivered
	}
	c.settle(ctx, h.Nak(backoff(h.Attempt)))
}
