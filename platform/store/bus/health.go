package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/ids"
)

const (
	// lookEvery is the interval of health checks, so the maximum age of a
	// verdict in normal operation.
	lookEvery = 500 * time.Millisecond
	// verdictExpires is the age beyond which a verdict is distrusted because
	// the monitor hangs; it must exceed the slowest check: ensuring the
	// streams, one request and one probe.
	verdictExpires = 8 * time.Second
	// lookTimeout bounds the request, which takes a millisecond on an idle
	// machine. A busy machine must not look broken.
	lookTimeout = 2 * time.Second
	// ensureTimeout bounds ensuring three streams, which takes milliseconds, in
	// a cluster some hundred milliseconds.
	ensureTimeout = 2 * time.Second
	// stalledAfter is how long messages may wait on GRANTS while none leaves it:
	// longer than the order writer retries through a failover of Postgres.
	stalledAfter = 10 * time.Second
	// fullPercent leaves room for the batches in flight when intake stops.
	fullPercent = 95
	// skippedAfter is how long the oldest grant stays the same before its consumer
	// is asked about it: a message is removed within milliseconds of its ack.
	skippedAfter = 2 * time.Second
	// probeSubject belongs to GRANTS because a write error belongs to a stream.
	// The grants consumer drops messages on it.
	probeSubject = prefixGrants + "probe"
)

// Back-off of restarts of the embedded server: each one interrupts everything
// for a moment.
const (
	// restartBroken applies when the server itself reports that it is broken;
	// that never heals, the wait only lets a transient cause pass.
	restartBroken = time.Second
	// restartSilent applies when it merely does not answer, which an overloaded
	// machine may also cause; a restart then makes it worse.
	restartSilent = 10 * time.Second
	restartFirst  = time.Second
	restartMost   = 30 * time.Second
	// stopTimeout is how long one round waits for the old server to end; the
	// next round continues to wait.
	stopTimeout = 10 * time.Second
)

// verdict is the result of the monitor's last check. It is immutable.
type verdict struct {
	at  time.Time
	err error // nil, ErrFull (GRANTS alone) or ErrUnhealthy
}

// Healthy returns nil when GRANTS takes messages, else ErrFull or ErrUnhealthy
// with the cause. It costs one atomic load, so that intake can check before
// each batch; the answer is at most half a second old.
func (b *Bus) Healthy(context.Context) error {
	v := b.verdict.Load()
	if age := time.Since(v.at); age > verdictExpires {
		return ErrUnhealthy.Because(fmt.Errorf("bus: no health check for %s", age))
	}
	return v.err
}

// backlog is what the monitor last saw of GRANTS. It is immutable.
type backlog struct {
	messages    uint64
	handled     uint64 // messages that have left the stream
	oldest      uint64 // the first message's sequence
	at          time.Time
	since       time.Time // since when none has left, although some waited
	oldestSince time.Time // since when the oldest is the same
}

// next is the look after l, nil before the first.
func (l *backlog) next(s jetstream.StreamState, now time.Time) *backlog {
	n := &backlog{messages: s.Msgs, handled: handled(s), oldest: s.FirstSeq, at: now, since: now, oldestSince: now}
	if l == nil || l.messages == 0 || n.messages == 0 {
		return n
	}
	if l.handled == n.handled {
		n.since = l.since
	}
	if l.oldest == n.oldest {
		n.oldestSince = l.oldestSince
	}
	return n
}

// GrantsMoving returns an error if messages wait on GRANTS and none has left it
// for a while: the order writer of no instance makes progress. It costs as much as
// Healthy.
func (b *Bus) GrantsMoving(context.Context) error {
	last := b.backlog.Load()
	if last == nil {
		return nil // Healthy says why there was no look
	}
	if still := last.at.Sub(last.since); still >= cmp.Or(b.cfg.stalledAfter, stalledAfter) {
		return fmt.Errorf("bus: %d messages wait for the order writer, and none has left the queue for %s", last.messages, still.Round(time.Second))
	}
	return nil
}

// unhealthy is Healthy for publishers to any stream: a full GRANTS does not
// concern the other streams, and GRANTS itself refuses with ErrFull.
func (b *Bus) unhealthy() error {
	if v := b.verdict.Load(); v.err != nil && !errors.Is(v.err, ErrFull) {
		return v.err
	}
	return nil
}

func (b *Bus) note(err error) {
	old := b.verdict.Swap(&verdict{at: time.Now(), err: err})
	b.m.setHealthy(err == nil)
	switch {
	case err != nil && (old == nil || old.err == nil):
		b.cfg.Log.Error("bus is unhealthy", "error", err)
	case err == nil && old != nil && old.err != nil:
		b.cfg.Log.Info("bus is healthy again")
	}
}

// doubt makes the monitor demand a stored probe before it trusts the streams
// again. Only GRANTS can be probed; the others' write errors show in the
// embedded server's own health.
func (b *Bus) doubt(stream string) {
	if stream == streamGrants && !b.suspect.Swap(true) {
		b.kick()
	}
}

// kick requests an immediate check.
func (b *Bus) kick() {
	select {
	case b.look <- struct{}{}:
	default: // a request is already pending
	}
}

// monitor keeps the verdict fresh and restarts a broken embedded server.
func (b *Bus) monitor(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	r := restarts{bus: b}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-b.look:
		}
		b.judge(ctx)
		r.consider(ctx)
	}
}

func (b *Bus) judge(ctx context.Context) {
	err := b.examine(ctx)
	if ctx.Err() == nil {
		b.note(err)
	}
}

func (b *Bus) examine(ctx context.Context) error {
	if b.server != nil {
		if err := b.server.health(); err != nil {
			return ErrUnhealthy.Because(fmt.Errorf("bus: JetStream: %w", err))
		}
	}
	if !b.nc.IsConnected() {
		return ErrUnhealthy.Because(errors.New("bus: not connected"))
	}
	if b.stale.Load() {
		ensure, cancel := context.WithTimeout(ctx, ensureTimeout)
		defer cancel()
		if err := b.ensureStreams(ensure); err != nil {
			return ErrUnhealthy.Because(err)
		}
		b.stale.Store(false)
	}
	ask, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	grants, err := b.js.Stream(ask, streamGrants)
	if err != nil {
		b.stale.Store(true)
		return ErrUnhealthy.Because(fmt.Errorf("bus: get stream info of %s: %w", streamGrants, err))
	}
	if b.suspect.Load() {
		// Cleared before the probe: a publisher that times out meanwhile sets it again.
		b.suspect.Store(false)
		if err := b.send(ctx, message(probeSubject, ids.New(), []byte("probe"))); err != nil {
			b.suspect.Store(true)
			if full := refusal(err); errors.Is(full, ErrFull) {
				return full
			}
			return ErrUnhealthy.Because(fmt.Errorf("bus: probe: %w", err))
		}
		// Probes are not backlog; this also removes those whose answer was lost.
		if err := grants.Purge(ask, jetstream.WithPurgeSubject(probeSubject)); err != nil {
			return ErrUnhealthy.Because(fmt.Errorf("bus: remove probe: %w", err))
		}
	}
	info := grants.CachedInfo()
	b.m.setBacklog(info.State.Msgs, info.State.Bytes)
	look := b.backlog.Load().next(info.State, time.Now())
	b.backlog.Store(look)
	if err := b.redeliverSkipped(ask, grants, look); err != nil {
		b.cfg.Log.WarnContext(ctx, "oldest grant not compared with its consumer", "error", err)
	}
	if limit := info.Config.MaxBytes; limit > 0 && info.State.Bytes >= uint64(limit)/100*fullPercent {
		return ErrFull.Because(fmt.Errorf("bus: %s contains %d of %d bytes", streamGrants, info.State.Bytes, limit))
	}
	return nil
}

// redeliverSkipped deletes the consumer of GRANTS when it counts the oldest
// message as acknowledged and the stream has kept it, as after a write error: a
// full disk. No restart would deliver such a message, and everything that waits
// for the stream to be empty, as a Load does, would wait for ever. The consumer
// is created again by those that use it, and delivers everything that is left.
func (b *Bus) redeliverSkipped(ctx context.Context, grants jetstream.Stream, look *backlog) error {
	if look.at.Sub(look.oldestSince) < cmp.Or(b.cfg.skippedAfter, skippedAfter) {
		return nil
	}
	consumer, err := grants.Consumer(ctx, grantsConsumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bus: get consumer %s: %w", grantsConsumer, err)
	}
	if consumer.CachedInfo().AckFloor.Stream < look.oldest {
		return nil // it is being written
	}
	b.cfg.Log.ErrorContext(ctx, "consumer of grants skipped a message, delivering what is left again", "sequence", look.oldest)
	if err := grants.DeleteConsumer(ctx, grantsConsumer); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("bus: delete consumer %s: %w", grantsConsumer, err)
	}
	return nil
}

// restarts decides when to restart the embedded server. Owned by the monitor
// goroutine.
type restarts struct {
	bus      *Bus
	badSince time.Time
	next     time.Time
	pause    time.Duration
	lastWhy  string
}

func (r *restarts) consider(ctx context.Context) {
	b := r.bus
	if b.server == nil {
		return
	}
	if b.unhealthy() == nil {
		*r = restarts{bus: b}
		return
	}
	now := time.Now()
	if r.badSince.IsZero() {
		r.badSince = now
	}
	after := restartSilent
	if b.server.health() != nil {
		after = restartBroken
	}
	if now.Sub(r.badSince) < after || now.Before(r.next) || ctx.Err() != nil {
		return
	}
	r.pause = min(max(2*r.pause, restartFirst), restartMost)
	err := b.server.writable()
	if err == nil {
		err = r.restart(ctx)
	}
	if err != nil && err.Error() != r.lastWhy {
		b.cfg.Log.Error("embedded NATS restart failed, retrying", "error", err)
		r.lastWhy = err.Error()
	}
	r.next = time.Now().Add(r.pause)
}

func (r *restarts) restart(ctx context.Context) error {
	b := r.bus
	b.cfg.Log.Warn("restarting embedded NATS", "unhealthy_for", time.Since(r.badSince).String())
	b.m.restarts.Inc()
	stop, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := b.server.stop(stop); err != nil {
		return err
	}
	b.suspect.Store(true)
	return b.server.start()
}
