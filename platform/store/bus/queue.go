package bus

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/ids"
)

// QueueConfig describes a work queue: a stream that a message leaves when its
// consumer acknowledges it, and that refuses messages with ErrFull when it is full.
// The module that publishes to it describes it, and Open creates it.
type QueueConfig struct {
	// Name is the stream's, and Description says what its messages are.
	Name, Description string
	// Prefix begins the queue's subjects and ends in a dot.
	Prefix string
	// MaxBytes is the queue's size, smaller on a small disk, see Bus.fit.
	MaxBytes int64
	// Consumer is the name of the one that the consumers of all instances share.
	Consumer string
	// Batch is the most messages that a handler gets at once.
	Batch int
	// AckWait is how long the messages of a dead instance wait before another one
	// gets them. A live one extends it, and a single one takes them back when it
	// starts, see takeBackAbandoned.
	AckWait time.Duration
}

// Queue is a work queue of an open bus. Safe for concurrent use.
type Queue struct {
	cfg     QueueConfig
	bus     *Bus
	suspect atomic.Bool // a publish timed out, or the server was restarted: probe before trusting
	watcher atomic.Pointer[func(ctx context.Context, s QueueState)]
}

// QueueState is a queue at one moment.
type QueueState struct {
	First    uint64 // the sequence of the oldest message
	Last     uint64 // of the last message ever stored
	Messages uint64 // that are not acknowledged yet
	Bytes    uint64
}

// Handled is how many messages have left the queue since it was created, in any order.
func (s QueueState) Handled() uint64 { return s.Last - min(s.Last, s.Messages) }

func stateOf(s jetstream.StreamState) QueueState {
	return QueueState{First: s.FirstSeq, Last: s.LastSeq, Messages: s.Msgs, Bytes: s.Bytes}
}

// panicDelay keeps a batch that makes its handler panic from doing so in a tight loop.
const panicDelay = time.Second

// probeName is the last part of the subject on which the monitor stores a message to
// see whether a queue takes any: a write error belongs to a stream.
const probeName = "probe"

// Queue returns the queue of that name, nil if Open was not given one.
func (b *Bus) Queue(name string) *Queue {
	for _, q := range b.queues {
		if q.cfg.Name == name {
			return q
		}
	}
	return nil
}

// OnQueue reports whether a subject is on a queue. Its consumer handles nothing else,
// so that a dead letter from a queue is redriven under its original subject.
func (b *Bus) OnQueue(subject string) bool { return b.queueOf(subject) != nil }

func (b *Bus) queueOf(subject string) *Queue {
	for _, q := range b.queues {
		if strings.HasPrefix(subject, q.cfg.Prefix) {
			return q
		}
	}
	return nil
}

// Watch makes the monitor call look with each state of the queue that it reads, twice
// a second while the queue can be read. look must be quick.
func (q *Queue) Watch(look func(ctx context.Context, s QueueState)) { q.watcher.Store(&look) }

// Consume passes the queue's messages to the handler in batches: one blocking
// receive, then whatever else is waiting. No timer collects more: while one batch is
// handled, the next one grows. The handler acknowledges each message once its effect
// is committed; the others are redelivered after the ack wait, unless it keeps them
// with Msg.Keep. Several instances, and several calls, share the work.
//
// It blocks until ctx ends, finishes the current batch, whose context does not
// end with ctx, and returns nil.
func (q *Queue) Consume(ctx context.Context, handle func(ctx context.Context, batch []Msg)) error {
	pull, err := q.bus.newPuller(ctx, q.bus.durable(q.cfg.Name, q.cfg.Consumer, q.cfg.AckWait, q.subject(">")))
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is the normal stop
		}
		return err
	}
	for {
		received := pull.next(ctx, q.cfg.Batch)
		if received == nil {
			return nil
		}
		batch := make([]Msg, 0, len(received))
		for _, h := range received {
			if h.Subject == q.subject(probeName) {
				_ = h.Ack() // after a lost ack the probe is only redelivered
				continue
			}
			batch = append(batch, h.Msg)
		}
		if len(batch) > 0 {
			stop := keepAlive(received, q.cfg.AckWait)
			q.handle(context.WithoutCancel(ctx), batch, handle)
			stop()
		}
	}
}

func (q *Queue) handle(ctx context.Context, batch []Msg, handle func(ctx context.Context, batch []Msg)) {
	defer func() {
		if r := recover(); r != nil {
			q.bus.cfg.Log.ErrorContext(ctx, "queue's handler panicked", "queue", q.cfg.Name, "panic", r, "stack", string(debug.Stack()))
			for _, m := range batch {
				_ = m.Nak(panicDelay) // without a connection the ack wait has the same effect
			}
		}
	}()
	handle(ctx, batch)
	q.bus.m.handled.WithLabelValues(q.cfg.Consumer, "handled").Add(float64(len(batch)))
}

// State returns the queue as it is now.
func (q *Queue) State(ctx context.Context) (QueueState, error) {
	s, err := q.stream(ctx)
	if err != nil {
		return QueueState{}, err
	}
	return stateOf(s.CachedInfo().State), nil
}

// First returns the sequence of the oldest message on a subject of the queue, 0 if
// every one is acknowledged.
func (q *Queue) First(ctx context.Context, subject string) (uint64, error) {
	s, err := q.stream(ctx)
	if err != nil {
		return 0, err
	}
	first, err := s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("bus: first message of %s: %w", subject, err)
	}
	return first.Sequence, nil
}

// Acknowledged returns the sequence up to which the consumer counts every message as
// acknowledged, 0 while no instance has consumed.
func (q *Queue) Acknowledged(ctx context.Context) (uint64, error) {
	c, err := q.bus.js.Consumer(ctx, q.cfg.Name, q.cfg.Consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("bus: get consumer %s: %w", q.cfg.Consumer, err)
	}
	return c.CachedInfo().AckFloor.Stream, nil
}

// Redeliver deletes the consumer. Those who use it create it again, and it delivers
// everything that is left.
func (q *Queue) Redeliver(ctx context.Context) error {
	if err := q.bus.js.DeleteConsumer(ctx, q.cfg.Name, q.cfg.Consumer); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("bus: delete consumer %s: %w", q.cfg.Consumer, err)
	}
	return nil
}

func (q *Queue) stream(ctx context.Context) (jetstream.Stream, error) {
	return q.bus.stream(ctx, q.cfg.Name)
}

func (q *Queue) subject(name string) string { return q.cfg.Prefix + name }

// streamConfig returns the required configuration of the queue's stream.
func (q *Queue) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: q.cfg.Name, Description: q.cfg.Description, Subjects: []string{q.subject(">")},
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxBytes: q.cfg.MaxBytes, Duplicates: duplicateWindow,
		Metadata: map[string]string{deadlineKey: q.bus.cfg.PublishDeadline.String()},
	}
}

// examine returns why the queue takes no messages, which is ErrFull or ErrUnhealthy.
func (q *Queue) examine(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s, err := q.stream(ask)
	if err != nil {
		return ErrUnhealthy.Because(err)
	}
	// Cleared before the probe: a publisher that times out meanwhile sets it again.
	if q.suspect.Swap(false) {
		if err := q.probe(ctx, s); err != nil {
			return err
		}
	}
	info := s.CachedInfo()
	state := stateOf(info.State)
	if look := q.watcher.Load(); look != nil {
		(*look)(ask, state)
	}
	if limit := info.Config.MaxBytes; limit > 0 && state.Bytes >= uint64(limit)/100*fullPercent {
		return ErrFull.Because(fmt.Errorf("bus: %s contains %d of %d bytes", q.cfg.Name, state.Bytes, limit))
	}
	return nil
}

// probe stores a message and removes it, with those whose answer was lost.
func (q *Queue) probe(ctx context.Context, s jetstream.Stream) error {
	if err := q.bus.send(ctx, message(q.subject(probeName), ids.New(), []byte("probe"))); err != nil {
		q.suspect.Store(true)
		if full := refusal(err); errors.Is(full, ErrFull) {
			return full
		}
		return ErrUnhealthy.Because(fmt.Errorf("bus: probe: %w", err))
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(q.subject(probeName))); err != nil {
		return ErrUnhealthy.Because(fmt.Errorf("bus: remove probe: %w", err))
	}
	return nil
}

// deadlineKey is where the metadata of a queue keeps the publish deadline of the
// instance that started last.
const deadlineKey = "stampede-publish-deadline"

// compareDeadline warns if other instances run with another PublishDeadline. A Load
// waits for the publishers of all instances by its own, so with a longer one
// elsewhere it may count while their grants are still on their way. It only
// warns, because an instance that died a moment ago cannot be told from a live
// one, and a start must not depend on that.
func (q *Queue) compareDeadline(ctx context.Context) error {
	s, err := q.stream(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	theirs, ours := s.CachedInfo().Config.Metadata[deadlineKey], q.bus.cfg.PublishDeadline.String()
	if theirs == "" || theirs == ours {
		return nil
	}
	c, err := s.Consumer(ctx, q.cfg.Consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bus: get consumer %s: %w", q.cfg.Consumer, err)
	}
	// A live consumer waits for messages or handles some.
	if info := c.CachedInfo(); info.NumWaiting > 0 || info.NumAckPending > 0 {
		q.bus.cfg.Log.ErrorContext(ctx, "instances have different publish deadlines, start all of them with one --publish-deadline",
			"ours", ours, "theirs", theirs)
	}
	return nil
}
