package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/base/tracing"
)

const (
	// attemptTimeout is how long one attempt waits for its answer. A synced
	// write takes under a millisecond, a queue of 64 publishers 20 ms; after a
	// second it is better to repeat, under the same id.
	attemptTimeout = time.Second
	// repeatPause keeps a publisher from spinning on an immediate error.
	repeatPause = 100 * time.Millisecond
)

// Publish stores a message and returns nil once it is on disk. It repeats the
// same bytes under the same id until PublishDeadline or the end of ctx; the
// stream keeps one copy. It returns ErrFull, ErrUnhealthy or ErrRefused
// immediately, and only if nothing can have been stored; any other outcome is
// ErrUnknown. Safe for concurrent use. The message carries the trace in ctx.
func (b *Bus) Publish(ctx context.Context, subject string, id ids.ID, data []byte) error {
	if id.IsZero() {
		return ErrRefused.Because(errors.New("bus: publish: a message needs an id"))
	}
	msg := message(subject, id, data)
	if !b.cfg.Trace.On() {
		return b.store(ctx, msg)
	}
	ctx, span := b.cfg.Trace.Child(ctx, spanPublish)
	carry(ctx, msg)
	err := b.store(ctx, msg)
	span.End(err)
	return err
}

func message(subject string, id ids.ID, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{jetstream.MsgIDHeader: {id.String()}}}
}

// store publishes until the outcome is clear or the deadline passes.
func (b *Bus) store(ctx context.Context, msg *nats.Msg) error {
	stream := b.streamOf(msg.Subject)
	if stream == "" {
		return ErrRefused.Because(fmt.Errorf("bus: publish: no stream has the subject %q", msg.Subject))
	}
	if err := b.unhealthy(); err != nil {
		b.m.published(stream, "unhealthy", 0)
		return err
	}
	if err := ctx.Err(); err != nil {
		return ErrUnhealthy.Because(fmt.Errorf("bus: publish: %w", err)) // nothing was sent
	}
	start := time.Now()
	limit, cancel := context.WithTimeout(ctx, b.cfg.PublishDeadline)
	defer cancel()
	unclear := false
	for {
		err := b.send(limit, msg)
		if err == nil {
			b.m.published(stream, "stored", time.Since(start))
			return nil
		}
		if refused := refusal(err); refused == nil {
			unclear = true
			// A caller whose own deadline passed has waited for an answer too;
			// a caller that canceled has not.
			if !errors.Is(ctx.Err(), context.Canceled) {
				b.doubt(msg.Subject)
			}
		} else if !unclear {
			// After an unclear attempt even a refusal proves nothing: the
			// earlier attempt may still reach the stream.
			b.m.published(stream, "refused", time.Since(start))
			return refused
		}
		select {
		case <-limit.Done():
			b.m.published(stream, "unknown", time.Since(start))
			return ErrUnknown.Because(fmt.Errorf("bus: publish to %s: %w", msg.Subject, err))
		case <-time.After(repeatPause):
		}
	}
}

// send makes one attempt.
func (b *Bus) send(ctx context.Context, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	// The library's own retries would hide that no server responds.
	_, err := b.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	return err
}

// Outgoing is a message for PublishAll.
type Outgoing struct {
	Subject string
	ID      ids.ID
	Data    []byte
	Trace   string // from tracing.Carry; empty for none
}

// PublishAll sends messages in order without waiting for each answer, then
// waits for all, at most PublishDeadline. The result has one entry for each
// message: nil or an error as from Publish. It does not retry: its caller, the
// outbox relay, sends again with the same ids. Pass a few hundred messages at
// most; beyond 4,000 the client blocks.
func (b *Bus) PublishAll(ctx context.Context, out []Outgoing) []error {
	errs := make([]error, len(out))
	futures := make([]jetstream.PubAckFuture, len(out))
	spans := make([]tracing.Span, len(out))
	start := time.Now()
	failed := b.unhealthy()
	for i, o := range out {
		var msg *nats.Msg
		msg, spans[i] = b.traced(ctx, o)
		switch {
		case failed != nil:
			errs[i] = failed
		case b.streamOf(o.Subject) == "" || o.ID.IsZero():
			errs[i] = ErrRefused.Because(fmt.Errorf("bus: publish: subject %q, id %s", o.Subject, o.ID))
		default:
			future, err := b.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
			if err != nil {
				if errs[i] = refusal(err); errs[i] == nil {
					errs[i] = ErrUnknown.Because(err)
				}
				// A refusal concerns this message alone; without a connection
				// the rest would fail the same way.
				if !errors.Is(errs[i], ErrRefused) {
					failed = errs[i]
				}
			}
			futures[i] = future
		}
	}
	limit, cancel := context.WithTimeout(ctx, b.cfg.PublishDeadline)
	defer cancel()
	for i, future := range futures {
		if future == nil || errs[i] != nil {
			continue
		}
		stream := b.streamOf(out[i].Subject)
		outcome := "stored"
		select {
		case <-future.Ok():
		case err := <-future.Err():
			outcome = "refused"
			if errs[i] = refusal(err); errs[i] == nil {
				outcome, errs[i] = "unknown", ErrUnknown.Because(err)
				b.doubt(out[i].Subject)
			}
		case <-limit.Done():
			outcome, errs[i] = "unknown", ErrUnknown.Because(limit.Err())
		}
		b.m.published(stream, outcome, time.Since(start))
	}
	for i, span := range spans {
		span.End(errs[i])
	}
	return errs
}

// subscribeTimeout bounds the round trip that makes a broadcast subscription
// effective.
const subscribeTimeout = 2 * time.Second

// Broadcast sends data to every instance that is subscribed at this moment,
// this one included. It neither stores nor repeats anything: use it for hints
// whose loss costs a little time. It fails immediately while the connection is
// down.
func (b *Bus) Broadcast(subject string, data []byte) error {
	if err := b.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("bus: broadcast %s: %w", subject, err)
	}
	return nil
}

// Kicks returns a channel that receives a value after broadcasts on subject
// from any instance, until stop. It is buffered: several broadcasts coalesce
// into one pending value.
func (b *Bus) Kicks(subject string) (kicks <-chan struct{}, stop func(), err error) {
	kicked := make(chan struct{}, 1)
	stop, err = b.OnBroadcast(subject, func([]byte) { app.Kick(kicked) })
	return kicked, stop, err
}

// OnBroadcast calls fn for each broadcast on subject from any instance, one at
// a time, until stop. fn must be quick: if it falls behind, the newest
// broadcasts are dropped. The subscription survives reconnects.
func (b *Bus) OnBroadcast(subject string, fn func(data []byte)) (stop func(), err error) {
	sub, err := b.nc.Subscribe(subject, func(m *nats.Msg) { fn(m.Data) })
	if err != nil {
		return nil, fmt.Errorf("bus: subscribe to %s: %w", subject, err)
	}
	stop = func() { _ = sub.Unsubscribe() } // fails only on a closed connection
	if err := b.nc.FlushTimeout(subscribeTimeout); err != nil {
		stop()
		return nil, fmt.Errorf("bus: subscribe to %s: %w", subject, err)
	}
	return stop, nil
}
