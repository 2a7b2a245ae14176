package bus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/ids"
)

const (
	// delayedIDHeader carries the id through the schedule, which strips the
	// standard header.
	delayedIDHeader = "Stampede-Id"
	// forwardConsumer is shared by the forwarders of all instances.
	forwardConsumer = "delayed-forwarder"
)

// Delay stores a message for delivery on subject, which must be on EVENTS, at
// the given time: never earlier, by the NATS server's clock, and normally
// within half a second. A time in the past is due immediately. It returns the
// same errors as Publish; until the timer has fired, repeating the call with
// the same id changes nothing. When the stream is full the oldest timers are
// dropped, so a delayed message is a wake-up and never the only cause of an
// effect.
func (b *Bus) Delay(ctx context.Context, subject string, at time.Time, id ids.ID, data []byte) error {
	if !strings.HasPrefix(subject, prefixEvents) || strings.ContainsAny(subject, "*> ") || id.IsZero() {
		return ErrRefused.Because(fmt.Errorf("bus: delay: subject %q, id %s", subject, id))
	}
	msg := message(prefixDelayedAt+id.String(), id, data)
	msg.Header[delayedIDHeader] = []string{id.String()}
	// The client's own option truncates to whole seconds and would fire early.
	msg.Header[jetstream.ScheduleHeader] = []string{"@at " + at.UTC().Format(time.RFC3339Nano)}
	msg.Header[jetstream.ScheduleTargetHeader] = []string{prefixDelayedDue + subject}
	return b.store(ctx, msg)
}

// timers is the consumer that moves due timers to EVENTS: a schedule can only fire within its own stream.
func (b *Bus) timers(ctx context.Context) (c *consumer, err error) {
	c = &consumer{bus: b, most: eventBatch, sub: Subscription{
		Name: forwardConsumer, Layout: math.MaxInt, MaxAttempts: math.MaxInt, Handle: b.forward,
	}}
	c.pull, err = b.newPuller(ctx, b.durable(streamDelayed, forwardConsumer, eventAckWait, prefixDelayedDue+">"))
	return c, err
}

// forward moves a due timer. If it is delivered again after a lost ack, EVENTS drops the duplicate.
func (b *Bus) forward(ctx context.Context, m Msg) error {
	var err error = ErrRefused.Because(errors.New("bus: the timer has no id"))
	if !m.ID.IsZero() {
		err = b.store(ctx, message(strings.TrimPrefix(m.Subject, prefixDelayedDue), m.ID, m.Data))
	}
	if err != nil && !errors.Is(err, ErrRefused) {
		return Expected(err)
	}
	if err != nil {
		b.cfg.Log.ErrorContext(ctx, "timer not delivered", "subject", m.Subject, "error", err)
	}
	b.discard(ctx, m.Seq)
	return nil
}

// discard removes a timer that has fired, so that the stream contains only
// pending ones. A timer left behind by a failure here is eventually dropped by
// the stream's bound.
func (b *Bus) discard(ctx context.Context, seq uint64) {
	s, err := b.js.Stream(ctx, streamDelayed)
	if err == nil {
		err = s.DeleteMsg(ctx, seq)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, nats.ErrNoResponders) {
		b.cfg.Log.WarnContext(ctx, "fired timer not removed", "error", err)
	}
}
