package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/ids"
)

// Msg is a message passed to a handler. Ack and Nak are sent without waiting
// for a reply and may be called from any goroutine; the first call counts,
// later ones do nothing. A message that gets neither is redelivered after the
// ack wait.
type Msg struct {
	ID      ids.ID // the publisher's id, the inbox key; zero if it has none
	Subject string
	Data    []byte
	Seq     uint64 // the sequence in its stream; a recreated stream starts from 1 again
	Trace   string // the publisher's traceparent, for tracing.Follow; empty for none
	Attempt int    // 1 on the first delivery; interrupted deliveries also count

	// Ack confirms that the effect is durable. In a Subscription the bus
	// acknowledges when the handler returns nil.
	Ack func() error
	// Nak requests redelivery after a delay (0 = immediately).
	Nak func(delay time.Duration) error

	kept *atomic.Bool // set by Keep
}

// Keep lets a handler of a queue return before it has settled the message: the
// bus goes on extending the ack wait until Ack or Nak. The handler must call one
// of them before the process stops consuming.
func (m Msg) Keep() {
	if m.kept != nil {
		m.kept.Store(true)
	}
}

// held is a message that is received but not yet settled.
type held struct {
	Msg
	raw     jetstream.Msg
	order   uint64 // its consumer's own number, from 1 without gaps
	settled atomic.Bool
	keep    atomic.Bool
}

// hold wraps a received message.
func hold(raw jetstream.Msg) *held {
	h := &held{raw: raw}
	h.kept = &h.keep
	h.Subject, h.Data, h.Trace = raw.Subject(), raw.Data(), raw.Headers().Get(traceHeader)
	h.ID, _ = ids.Parse(raw.Headers().Get(jetstream.MsgIDHeader)) // the zero ID on an error
	h.restore()
	if meta, err := raw.Metadata(); err == nil {
		h.Seq, h.order, h.Attempt = meta.Sequence.Stream, meta.Sequence.Consumer, int(min(meta.NumDelivered, 1<<30)) //nolint:gosec // bounded
	}
	h.Ack = func() error {
		if h.settled.Swap(true) {
			return nil
		}
		return raw.Ack()
	}
	h.Nak = func(delay time.Duration) error {
		if h.settled.Swap(true) {
			return nil
		}
		return raw.NakWithDelay(delay)
	}
	return h
}

// keepAlive reports progress on a batch's unsettled messages to the server
// every third of wait, so that a slow handler's messages are not redelivered
// meanwhile. The returned function ends that, except for kept messages.
func keepAlive(batch []*held, wait time.Duration) (stop func()) {
	every := wait / 3
	var timer *time.Timer
	var done atomic.Bool
	ready := make(chan struct{}) // orders the write of timer before its use
	timer = time.AfterFunc(every, func() {
		<-ready
		kept := false
		for _, h := range batch {
			if h.settled.Load() || done.Load() && !h.keep.Load() {
				continue
			}
			kept = kept || h.keep.Load()
			_ = h.raw.InProgress() // without a connection the message is redelivered, which handlers tolerate
		}
		if kept || !done.Load() {
			timer.Reset(every)
		}
	})
	close(ready)
	return func() {
		done.Store(true)
		if !slices.ContainsFunc(batch, func(h *held) bool { return h.keep.Load() && !h.settled.Load() }) {
			timer.Stop()
		}
	}
}

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

// prefixRedrive starts the subjects of messages that are redriven to one
// consumer only: redrive.<consumer>.<message id>.<subject>. They are on EVENTS.
const prefixRedrive = "redrive."

// RedriveSubject returns the subject on which to publish a dead letter so that
// only the consumer that gave up on it gets it, with its original subject and
// id. Publish it under a new id, or the stream drops it as a duplicate.
func RedriveSubject(consumer, messageID, subject string) string {
	return prefixRedrive + consumer + "." + messageID + "." + subject
}

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
	h.ID, _ = ids.Parse(parts[2]) // a message that had no id gets none again
}
