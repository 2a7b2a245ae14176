package bus

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// grantsConsumer is shared by the order writers of all instances.
	grantsConsumer = "order-writer"
	// grantsBatch is the most that one transaction handles: 64 messages of up
	// to 512 grants. More would lock the stock rows longer without being
	// cheaper per order.
	grantsBatch = 64
	// grantsAckWait is how long the batch of a dead writer waits before another
	// instance gets it; a live writer extends it. A single instance takes the
	// batch back when it starts, see takeBackAbandoned.
	grantsAckWait = 10 * time.Second
	// panicDelay keeps a batch that makes its handler panic from doing so in a
	// tight loop.
	panicDelay = time.Second
)

// ConsumeGrants passes the messages on GRANTS to the handler in batches: one
// blocking receive, then whatever else is waiting, at most 64 messages. No
// timer collects more: while one batch is handled, the next one grows. The
// handler acknowledges each message once its effect is committed; the others
// are redelivered after 10 s, unless it keeps them with Msg.Keep. Several
// instances, and several calls, share the work.
//
// It blocks until ctx ends, finishes the current batch, whose context does not
// end with ctx, and returns nil.
func (b *Bus) ConsumeGrants(ctx context.Context, handle func(ctx context.Context, batch []Msg)) error {
	pull, err := b.newPuller(ctx, b.durable(streamGrants, grantsConsumer, b.grantsAckWait, prefixGrants+">"))
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is the normal stop
		}
		return err
	}
	for {
		received := pull.next(ctx, grantsBatch)
		if received == nil {
			return nil
		}
		batch := make([]Msg, 0, len(received))
		for _, h := range received {
			if h.Subject == probeSubject {
				_ = h.Ack() // after a lost ack the probe is only redelivered
				continue
			}
			batch = append(batch, h.Msg)
		}
		if len(batch) > 0 {
			stop := keepAlive(received, b.grantsAckWait)
			b.handleGrants(context.WithoutCancel(ctx), batch, handle)
			stop()
		}
	}
}

func (b *Bus) handleGrants(ctx context.Context, batch []Msg, handle func(ctx context.Context, batch []Msg)) {
	defer func() {
		if r := recover(); r != nil {
			b.cfg.Log.ErrorContext(ctx, "grants handler panicked", "panic", r, "stack", string(debug.Stack()))
			for _, m := range batch {
				_ = m.Nak(panicDelay) // without a connection the ack wait has the same effect
			}
		}
	}()
	handle(ctx, batch)
	b.m.handled.WithLabelValues(grantsConsumer, "handled").Add(float64(len(batch)))
}

// GrantsLast returns the sequence of the last message ever stored on GRANTS.
func (b *Bus) GrantsLast(ctx context.Context) (uint64, error) {
	s, err := b.js.Stream(ctx, streamGrants)
	if err != nil {
		return 0, fmt.Errorf("bus: get stream info of %s: %w", streamGrants, err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// GrantsBacklog returns how many messages on GRANTS are not yet acknowledged.
func (b *Bus) GrantsBacklog(ctx context.Context) (messages uint64, err error) {
	s, err := b.js.Stream(ctx, streamGrants)
	if err != nil {
		return 0, fmt.Errorf("bus: get stream info of %s: %w", streamGrants, err)
	}
	return s.CachedInfo().State.Msgs, nil
}

// GrantsHandled returns how many messages have left GRANTS since it was created.
func (b *Bus) GrantsHandled(ctx context.Context) (uint64, error) {
	s, err := b.js.Stream(ctx, streamGrants)
	if err != nil {
		return 0, fmt.Errorf("bus: get stream info of %s: %w", streamGrants, err)
	}
	return handled(s.CachedInfo().State), nil
}

// handled is how many messages have left a stream from which they leave in any order.
func handled(s jetstream.StreamState) uint64 { return s.LastSeq - min(s.LastSeq, s.Msgs) }

// GrantsDone reports whether every message of an item up to and including the
// sequence upTo has been acknowledged. A work queue contains exactly the
// unacknowledged messages, so the first stored message of the subject decides.
func (b *Bus) GrantsDone(ctx context.Context, itemID int64, upTo uint64) (bool, error) {
	s, err := b.js.Stream(ctx, streamGrants)
	if err != nil {
		return false, fmt.Errorf("bus: get stream info of %s: %w", streamGrants, err)
	}
	subject := prefixGrants + strconv.FormatInt(itemID, 10)
	first, err := s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("bus: first message of %s: %w", subject, err)
	}
	return first.Sequence > upTo, nil
}

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
