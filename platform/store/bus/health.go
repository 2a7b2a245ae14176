package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stampede/platform/base/app"
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
	// ensureTimeout bounds ensuring two streams, which takes milliseconds, in
	// a cluster some hundred milliseconds.
	ensureTimeout = 2 * time.Second
	// fullPercent leaves room for the batches in flight when intake stops.
	fullPercent = 95
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
	err error // nil, ErrFull (of a queue) or ErrUnhealthy
}

// Healthy returns nil when the queues take messages, else ErrFull or ErrUnhealthy
// with the cause. It costs one atomic load, so that intake can check before
// each batch; the answer is at most half a second old.
func (b *Bus) Healthy(context.Context) error {
	v := b.verdict.Load()
	if age := time.Since(v.at); age > verdictExpires {
		return ErrUnhealthy.Because(fmt.Errorf("bus: no health check for %s", age))
	}
	return v.err
}

// unhealthy is Healthy for publishers to any stream: a full queue does not concern the
// other streams, and itself refuses with ErrFull.
func (b *Bus) unhealthy() error {
	if v := b.verdict.Load(); v.err != nil && !errors.Is(v.err, ErrFull) {
		return v.err
	}
	return nil
}

func (b *Bus) note(err error) {
	old := b.verdict.Swap(&verdict{at: time.Now(), err: err})
	if err != nil {
		b.m.healthy.Set(0)
		if old == nil || old.err == nil {
			b.cfg.Log.Error("bus is unhealthy", "error", err)
		}
		return
	}
	b.m.healthy.Set(1)
	if old != nil && old.err != nil {
		b.cfg.Log.Info("bus is healthy again")
	}
}

// doubt makes the monitor demand a stored probe before it trusts the streams
// again. Only a queue can be probed; the other streams' write errors show in the
// embedded server's own health.
func (b *Bus) doubt(subject string) {
	if q := b.queueOf(subject); q != nil && !q.suspect.Swap(true) {
		app.Kick(b.look)
	}
}

// monitor keeps the verdict fresh and restarts a broken embedded server.
func (b *Bus) monitor(ctx context.Context) {
	r := restarts{bus: b}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(app.UntilBeat(lookEvery)):
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
	if b.cfg.Embedded != nil {
		if err := b.cfg.Embedded.Healthy(); err != nil {
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
	for _, q := range b.queues {
		if err := q.examine(ctx); err != nil {
			return err
		}
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
	if b.cfg.Embedded == nil {
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
	if b.cfg.Embedded.Healthy() != nil {
		after = restartBroken
	}
	if now.Sub(r.badSince) < after || now.Before(r.next) || ctx.Err() != nil {
		return
	}
	r.pause = min(max(2*r.pause, restartFirst), restartMost)
	err := b.cfg.Embedded.Writable()
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
	if err := b.cfg.Embedded.Stop(stop); err != nil {
		return err
	}
	for _, q := range b.queues {
		q.suspect.Store(true)
	}
	return b.cfg.Embedded.Start()
}
