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
	// grantsBatch is the most one transaction takes: 64 messages of up to 512
	// grants. More would hold the stock rows longer without being cheaper per
	// order.
	grantsBatch = 64
	// grantsAckWait is how long a batch waits after its writer died while other
	// instances go on; a live writer prolongs it. Who is alone takes the batch back
	// as it starts, see takeBackAbandoned.
	grantsAckWait = 10 * time.Second
	// panicDelay keeps a batch that brings its handler down from doing so in a
	// tight loop.
	panicDelay = time.Second
)

// ConsumeGrants hands over what waits on GRANTS, one batch after the other:
// one blocking receive, then whatever else is there, at most 64 messages. No
// timer gathers more: while a batch is handled, the next one grows. The handler
// acknowledges each message once its effect is committed; those it leaves come
// again after 10 s. Several instances, and several calls, share the work.
//
// It blocks until ctx ends and then returns nil after the batch in hand, whose
// context does not end with ctx.
func (b *Bus) ConsumeGrants(ctx context.Context, handle func(ctx context.Context, batch []Msg)) error {
	pull, err := b.newPuller(ctx, b.durable(streamGrants, grantsConsumer, b.grantsAckWait, prefixGrants+">"))
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is how it ends
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
				_ = h.Ack() // a lost ack only brings the probe again
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
			b.cfg.Log.ErrorContext(ctx, "handler of grants panicked", "panic", r, "stack", string(debug.Stack()))
			for _, m := range batch {
				_ = m.Nak(panicDelay) // without a connection the ack wait does the same
			}
		}
	}()
	handle(ctx, batch)
	b.m.handled.WithLabelValues(grantsConsumer, "handled").Add(float64(len(batch)))
}

// GrantsLast is the sequence of the last message ever stored on GRANTS.
func (b *Bus) GrantsLast(ctx context.Context) (uint64, error) {
	s, err := b.js.Stream(ctx, streamGrants)
	if err != nil {
		return 0, fmt.Errorf("bus: look at %s: %w", streamGrants, err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// GrantsBacklog is how many messages on GRANTS are not acknowledged yet.
func (b *Bus) GrantsBacklog(ctx context.Context) (messages uint64, err error) {
	s, err := b.js.Stream(ctx, streamGrants)
	if err != nil {
		return 0, fmt.Errorf("bus: look at %s: %w", streamGrants, err)
	}
	return s.CachedInfo().State.Msgs, nil
}

// GrantsDone reports whether every message of an item up to and including the
// sequence upTo has been acknowledged. A work queue stores exactly what waits
// or is in hand, so the first stored message of the subject tells.
func (b *Bus) GrantsDone(ctx context.Context, itemID int64, upTo uint64) (bool, error) {
	s, err := b.js.Stream(ctx, streamGrants)
	if err != nil {
		return false, fmt.Errorf("bus: look at %s: %w", streamGrants, err)
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
