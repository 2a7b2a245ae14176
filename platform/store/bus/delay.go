package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/app"
	"stampede/platform/base/ids"
)

const (
	// delayedIDHeader carries the id through the schedule, which strips the
	// standard header.
	delayedIDHeader = "Stampede-Id"
	// forwardConsumer is shared by the forwarders of all instances.
	forwardConsumer = "delayed-forwarder"
	// forwardRetry is the pause before a due timer is forwarded again after
	// EVENTS refused it.
	forwardRetry = time.Second
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

// forwarder moves due timers to EVENTS: a schedule can only fire within its own stream.
func (b *Bus) forwarder(ctx context.Context) {
	create := b.durable(streamDelayed, forwardConsumer, eventAckWait, prefixDelayedDue+">")
	var pull *puller
	for pull == nil {
		var err error
		if pull, err = b.newPuller(ctx, create); err != nil {
			if ctx.Err() != nil {
				return
			}
			b.cfg.Log.WarnContext(ctx, "timer forwarder cannot start, retrying", "error", err)
			if app.Sleep(ctx, forwardRetry) != nil {
				return
			}
		}
	}
	for {
		batch := pull.next(ctx, eventBatch)
		if batch == nil {
			return
		}
		stop := keepAlive(batch, eventAckWait)
		for _, h := range batch {
			b.forward(ctx, h)
		}
		stop()
	}
}

func (b *Bus) forward(ctx context.Context, h *held) {
	var err error = ErrRefused.Because(errors.New("bus: the timer has no id")) // and never will have one
	if id, parseErr := ids.Parse(h.raw.Headers().Get(delayedIDHeader)); parseErr == nil {
		err = b.store(ctx, message(strings.TrimPrefix(h.Subject, prefixDelayedDue), id, h.Data))
	}
	switch {
	case err == nil:
		b.m.handled.WithLabelValues(forwardConsumer, "handled").Inc()
	case errors.Is(err, ErrRefused):
		b.cfg.Log.ErrorContext(ctx, "timer not delivered", "subject", h.Subject, "error", err)
		b.m.handled.WithLabelValues(forwardConsumer, "dropped").Inc()
	default:
		b.m.handled.WithLabelValues(forwardConsumer, "retried").Inc()
		_ = h.Nak(forwardRetry) // without a connection the ack wait has the same effect
		return
	}
	_ = h.Ack() // after a lost ack it is redelivered, and EVENTS drops the duplicate
	// The stream contains only pending timers. One that is left behind by a failure here is
	// dropped by the stream's bound.
	s, err := b.js.Stream(ctx, streamDelayed)
	if err == nil {
		err = s.DeleteMsg(ctx, h.Seq)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, nats.ErrNoResponders) {
		b.cfg.Log.WarnContext(ctx, "fired timer not removed", "error", err)
	}
}
