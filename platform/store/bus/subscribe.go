package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/app"
	"stampede/platform/base/ids"
)

const (
	// defaultAttempts covers 13 s of back-off: enough for a deadlock or a
	// restart of a dependency. A subscription that must outlast an outage sets
	// more; from the tenth on, an attempt costs 30 s.
	defaultAttempts = 8
	firstBackoff    = 100 * time.Millisecond
	mostBackoff     = 30 * time.Second
	// quietAttempts is how many attempts may fail with an expected error before
	// it is logged as a warning: together 25 s of back-off, longer than a Load
	// of an item takes.
	quietAttempts = 8
	// eventAckWait is how long the message of a dead instance waits before
	// another gets it.
	eventAckWait = 15 * time.Second
	// handleTimeout ends a handler that hangs; an effect inside a transaction
	// takes milliseconds, a webhook has its own, shorter limit.
	handleTimeout = 30 * time.Second
	// stopGrace is how long a handler may take after its context ends, to roll
	// back its transaction.
	stopGrace = time.Second
	// eventBatch is the size of one pull: large enough to make the round trip
	// cheap, small enough that other instances get their share of a burst.
	eventBatch = 16
)

// Subscription is one consumer of events.
type Subscription struct {
	// Name of the shared durable, one for each effect: letters, digits, "-", "_".
	// With PerInstance it is a label for logs and metrics only.
	Name string
	// Filter is a subject on EVENTS; the wildcards * and > are allowed.
	Filter string
	// PerInstance delivers new messages to every instance, once, without
	// retries: for hints like a push or a flag. The consumer survives
	// reconnects and resumes where it was, so a message may arrive twice.
	PerInstance bool
	// Missed, with PerInstance, is called after messages may have been lost on
	// the way to this instance: its connection was interrupted, or its consumer
	// was created anew. It may be nil and must not block.
	Missed func()
	// MaxAttempts before a message becomes a dead letter. 0 means 8, which is
	// 13 s of back-off; 20 are about 6 minutes, 100 about 46.
	MaxAttempts int
	// Parallel is how many messages this instance handles at once; 0 means 1,
	// which keeps their order except for retries.
	Parallel int
	// Layout is the newest layout of events that Handle reads, 0 means 1: JSON.
	// Newer events wait on the stream for a version that reads them; see message.go.
	Layout int
	// Handle performs the effect. nil acknowledges; after an error the message
	// is redelivered with a back-off of 100 ms doubling to 30 s. ctx ends after
	// 30 s. A panic counts as an error; an error marked by Expected is not
	// logged as a warning at first. The message may be redelivered even after
	// nil (at least once), so the effect needs the inbox or must be idempotent.
	Handle func(ctx context.Context, m Msg) error
}

// DeadLetters keeps a message that a consumer has given up on, with an alarm.
// While it fails, the message is not acknowledged and is redelivered. With the
// cause ErrNewer it raises an alarm only.
// platform/watch/deadletters has one.
type DeadLetters func(ctx context.Context, consumer string, m Msg, cause error) error

// durableName matches names that are valid both in NATS and as a metrics label.
var durableName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Subscribe starts consumers. ctx bounds the start; handlers inherit its values
// but not its end. They run until stop is called, which lets running handlers
// finish until its own ctx ends, then cancels them and waits one second more.
//
// It deletes shared consumers that no call has named and no instance uses, so
// the first call must name them all.
func (b *Bus) Subscribe(ctx context.Context, subs []Subscription, dead DeadLetters) (stop func(ctx context.Context), err error) {
	if err := checkSubscriptions(subs, dead); err != nil {
		return nil, err
	}
	for _, s := range subs {
		if !s.PerInstance {
			b.subscribed.Store(s.Name, struct{}{})
		}
	}
	b.complete.Store(true)
	if err := b.removeUnclaimed(ctx); err != nil {
		return nil, err
	}
	handling, cancelHandling := context.WithCancel(context.WithoutCancel(ctx))
	pulling, cancelPulling := context.WithCancel(handling)
	var running sync.WaitGroup
	stop = func(ctx context.Context) {
		cancelPulling()
		_ = app.Await(ctx, running.Wait) // the handlers that still run are cancelled
		cancelHandling()
		grace, end := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer end()
		if app.Await(grace, running.Wait) != nil {
			b.cfg.Log.WarnContext(ctx, "handler abandoned: it did not return when its context ended")
		}
	}
	for _, s := range subs {
		b.m.handled.WithLabelValues(s.Name, "dead") // an alert sees no increase in a series that begins with its first
		for range max(s.Parallel, 1) {
			c := &consumer{bus: b, sub: s, dead: dead, most: eventBatch}
			if s.Parallel > 1 {
				c.most = 1 // a batch would give one worker messages that another could handle now
			}
			create := b.durable(streamEvents, s.Name, eventAckWait, s.Filter, prefixRedrive+s.Name+".>")
			if s.PerInstance {
				create = c.ephemeral
			}
			if c.pull, err = b.newPuller(ctx, create); err != nil {
				stop(ctx)
				return nil, err
			}
			c.pull.missed = s.Missed
			running.Go(func() { c.run(pulling, handling) })
		}
	}
	return stop, nil
}

func checkSubscriptions(subs []Subscription, dead DeadLetters) error {
	seen := make(map[string]bool, len(subs))
	for _, s := range subs {
		switch {
		case !durableName.MatchString(s.Name):
			return fmt.Errorf("bus: subscription name %q: only letters, digits, - and _", s.Name)
		case seen[s.Name]:
			return fmt.Errorf("bus: duplicate subscription name %s", s.Name)
		case !strings.HasPrefix(s.Filter, prefixEvents):
			return fmt.Errorf("bus: subscription %s: filter %q is not on EVENTS", s.Name, s.Filter)
		case s.Handle == nil:
			return fmt.Errorf("bus: subscription %s has no handler", s.Name)
		case s.PerInstance && s.Parallel > 1:
			return fmt.Errorf("bus: subscription %s: every worker of a per-instance consumer would get every message", s.Name)
		case !s.PerInstance && s.Missed != nil:
			return fmt.Errorf("bus: subscription %s: only per-instance consumers miss messages", s.Name)
		case !s.PerInstance && dead == nil:
			return fmt.Errorf("bus: subscription %s requires DeadLetters", s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

// consumer runs one worker of one subscription.
type consumer struct {
	bus  *Bus
	sub  Subscription
	dead DeadLetters
	pull *puller
	most int

	reported time.Time // when the last event of a newer version was reported

	// Of a consumer per instance, which acknowledges nothing:
	stream time.Time // when the stream was created of which seen is a sequence
	seen   uint64    // the last message, before which none is missing
	due    uint64    // the consumer's own number of the next message
	since  time.Time // older messages are history, see forgets
	newest time.Time // of the messages seen
}

func (c *consumer) run(pulling, handling context.Context) {
	for {
		batch := c.pull.next(pulling, c.most)
		if batch == nil {
			return
		}
		stop := func() {}
		if !c.sub.PerInstance { // per-instance messages are not acknowledged
			stop = keepAlive(batch, eventAckWait)
		}
		for _, h := range batch {
			if pulling.Err() != nil {
				// Stopping: return the messages that are not yet being handled.
				_ = h.Nak(0)
				continue
			}
			if c.sub.PerInstance && !c.follows(h) {
				c.pull.recover(pulling, errGap)
				break
			}
			if c.sub.PerInstance && c.forgets(h.ID) {
				c.count("skipped")
				continue
			}
			c.take(handling, h)
		}
		stop()
	}
}

// errGap means that a message was sent to this instance and did not arrive, as
// happens while a server stops: its answer comes after the end of the request.
var errGap = errors.New("bus: a message is missing")

// follows reports whether no message is missing before h. If one is, h is not
// handled: it comes again, after the missing one, from the consumer that is
// created next.
func (c *consumer) follows(h *held) bool {
	if h.order != c.due {
		return false
	}
	c.due, c.seen = h.order+1, h.Seq
	return true
}

// clockSlack is how much older than it is an event may seem: its id has the time of the
// instance that wrote it, before its commit.
const clockSlack = time.Minute

// refilledWithin is how long after its creation history may still be sent to a stream.
const refilledWithin = 6 * time.Hour

// join begins with the messages from now on. By NATS's clock, because this machine's may
// be off; and so may those of the instances that write, so that a stream that is too old
// to be filled with history is taken as it comes.
func (c *consumer) join(info *jetstream.StreamInfo) {
	c.newest = info.TimeStamp
	if info.TimeStamp.Sub(info.Created) < refilledWithin {
		c.since = info.TimeStamp.Add(-clockSlack)
	}
}

// forgets reports whether a message is older than this instance, or than what it had seen
// before the stream was lost: days of those are sent again, and are no news here.
func (c *consumer) forgets(id ids.ID) bool {
	at := id.Time()
	if id.IsZero() || at.Before(c.since) {
		return !id.IsZero()
	}
	if at.After(c.newest) && at.Before(time.Now()) { // not by a clock that is ahead
		c.newest = at
	}
	return false
}

// take handles one message and settles it.
func (c *consumer) take(ctx context.Context, h *held) {
	if layoutOf(h.Data) > max(c.sub.Layout, 1) {
		c.leave(ctx, h)
		return
	}
	err := c.handle(ctx, h.Msg)
	switch {
	case c.sub.PerInstance:
		if err == nil {
			c.count("handled")
			return
		}
		c.count("dropped")
		c.log(h).WarnContext(ctx, "message dropped by a per-instance consumer", "error", err)
	case err == nil:
		c.count("handled")
		c.settle(ctx, h.Ack())
	case h.Attempt < cmp.Or(c.sub.MaxAttempts, defaultAttempts):
		delay := backoff(h.Attempt)
		c.count("retried")
		c.log(h).Log(ctx, retryLevel(err, h.Attempt), "message handler failed, retrying", "error", err, "delay", delay.String())
		c.settle(ctx, h.Nak(delay))
	default:
		c.bury(ctx, h, err)
	}
}

// expected is an error that is part of normal operation.
type expected struct{ error }

func (e expected) Unwrap() error { return e.error }

// Expected marks a handler's error as part of normal operation, such as an item
// that is still being loaded: the message is retried as after any error, but
// logged as a warning only if it keeps failing.
func Expected(err error) error {
	if err == nil {
		return nil
	}
	return expected{err}
}

// IsExpected reports whether Expected has marked the error or one that it
// wraps.
func IsExpected(err error) bool {
	_, ok := errors.AsType[expected](err)
	return ok
}

// retryLevel returns the level at which a failed attempt is logged.
func retryLevel(err error, attempt int) slog.Level {
	if IsExpected(err) && attempt <= quietAttempts {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// bury keeps a failed message as a dead letter. It acknowledges the message
// only after the dead letter is stored.
func (c *consumer) bury(ctx context.Context, h *held, cause error) {
	// A stop must not interrupt between the dead letter and the ack.
	if err := c.dead(context.WithoutCancel(ctx), c.sub.Name, h.Msg, cause); err != nil {
		c.count("retried")
		c.log(h).ErrorContext(ctx, "dead letter not stored", "error", err, "cause", cause)
		c.settle(ctx, h.Nak(mostBackoff))
		return
	}
	c.count("dead")
	c.log(h).ErrorContext(ctx, "message became a dead letter", "error", cause)
	c.settle(ctx, h.Ack())
}

func (c *consumer) log(h *held) *slog.Logger {
	return c.bus.cfg.Log.With("consumer", c.sub.Name, "subject", h.Subject, "message_id", h.ID.String(), "attempt", h.Attempt)
}

// handle calls the handler with a time limit and turns a panic into an error.
func (c *consumer) handle(ctx context.Context, m Msg) (err error) {
	ctx, cancel := context.WithTimeout(ctx, handleTimeout)
	defer cancel()
	if m.Trace != "" && c.bus.cfg.Trace.On() {
		followed, span := c.follow(ctx, m)
		ctx = followed
		defer func() { span.End(err) }()
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("bus: handler of %s panicked: %v\n%s", c.sub.Name, r, debug.Stack())
		}
	}()
	return c.sub.Handle(ctx, m)
}

func (c *consumer) count(outcome string) {
	c.bus.m.handled.WithLabelValues(c.sub.Name, outcome).Inc()
}

// settle logs an ack or nak that could not be sent. The message is then redelivered.
func (c *consumer) settle(ctx context.Context, err error) {
	if err != nil {
		c.bus.cfg.Log.WarnContext(ctx, "ack or nak not sent", "consumer", c.sub.Name, "error", err)
	}
}

// backoff is the delay after a failed attempt, counted from 1.
func backoff(attempt int) time.Duration {
	return min(firstBackoff<<min(max(attempt-1, 0), 9), mostBackoff) // doubled nine times it is above the most
}

// ephemeral creates the consumer of one instance: at first for new messages
// only, and when it is created again, from the message after the last one seen.
// A stream that was lost and created again starts anew, so all of it is new but for the
// history that is sent again, see forgets.
func (c *consumer) ephemeral(ctx context.Context) (jetstream.Consumer, error) {
	stream, err := c.bus.stream(ctx, streamEvents)
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	seen := min(c.seen, info.State.LastSeq) // a stream may have lost its end
	switch {
	case c.stream.IsZero():
		seen = info.State.LastSeq
		c.join(info)
	case !c.stream.Equal(info.Created):
		seen, c.since = 0, c.newest.Add(-clockSlack)
	}
	made, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject: c.sub.Filter,
		AckPolicy:     jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:   seen + 1,
		MemoryStorage: true,
		Replicas:      1,
		// The server removes it this long after the instance has gone; a live
		// instance pulls well before that.
		InactiveThreshold: 2 * pullWait,
	})
	if err != nil {
		return nil, fmt.Errorf("bus: create per-instance consumer %s: %w", c.sub.Name, err)
	}
	c.stream, c.seen, c.due = info.Created, seen, 1
	return made, nil
}
