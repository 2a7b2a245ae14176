package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/app"
)

// Bus is a connection to the streams. Safe for concurrent use.
type Bus struct {
	cfg    Config
	events int64 // the size of EVENTS, in bytes
	nc     *nats.Conn
	js     jetstream.JetStream
	m      *metrics
	queues []*Queue

	eventsCreated atomic.Int64 // the result of EventsCreated, in Unix nanoseconds; set by ensureStreams

	// subscribed holds the names of the shared consumers that Subscribe has
	// started; once complete is set, consumers of other names may be unclaimed.
	subscribed sync.Map
	complete   atomic.Bool
	keptFor    atomic.Value // the name of the consumer that the trimmer logged last

	verdict atomic.Pointer[verdict]
	stale   atomic.Bool   // the streams may be missing and must be ensured
	look    chan struct{} // requests an immediate check by the monitor; buffers one request

	background sync.WaitGroup
	end        context.CancelFunc // ends the background goroutines
	closing    sync.Once
	closed     atomic.Bool // Close was called, so a lost connection is expected
}

// Open starts cfg.Embedded or connects to cfg.URL, and makes sure that
// the streams exist. ctx bounds only the start.
func Open(ctx context.Context, cfg Config) (*Bus, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := &Bus{
		cfg: cfg, events: cfg.EventsMaxMiB << 20, m: newMetrics(cfg.Metrics), look: make(chan struct{}, 1),
	}
	for _, q := range cfg.Queues {
		b.queues = append(b.queues, &Queue{cfg: q, bus: b})
		b.m.handled.WithLabelValues(q.Consumer, "handled")
		b.m.publish.WithLabelValues(q.Name, "stored")
	}
	if cfg.Embedded != nil {
		free, err := cfg.Embedded.FreeBytes()
		if err != nil {
			return nil, err
		}
		if b.fit(free) {
			cfg.Log.WarnContext(ctx, "little free disk space, streams are smaller than configured", "free_bytes", free, "events_bytes", b.events)
		}
		if err := cfg.Embedded.Start(); err != nil {
			return nil, err
		}
	}
	err := b.connect(ctx)
	if err == nil && cfg.Embedded == nil {
		for _, q := range b.queues {
			err = errors.Join(err, q.compareDeadline(ctx))
		}
	}
	if err == nil {
		err = b.ensureStreams(ctx)
	}
	if err == nil && cfg.Embedded != nil {
		err = b.takeBackAbandoned(ctx)
		// No instance of 0.10.0 can use it beside this one; in a cluster one may.
		if gone := b.js.DeleteStream(ctx, streamDelayed); err == nil && !errors.Is(gone, jetstream.ErrStreamNotFound) {
			err = gone
		}
	}
	if err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return nil, errors.Join(err, b.Close(stop))
	}

	run, end := context.WithCancel(context.WithoutCancel(ctx))
	b.end = end
	b.judge(run)
	for _, loop := range []func(context.Context){b.monitor, b.trimmer} {
		b.background.Go(func() { loop(run) })
	}
	return b, nil
}

// connect opens the single shared connection. It reconnects without limit and
// buffers nothing while it is down: a publish that cannot be written fails
// immediately, so that its publisher knows that it was not stored.
func (b *Bus) connect(ctx context.Context) error {
	log := b.cfg.Log
	opts := []nats.Option{
		nats.Name("stampede"),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 200*time.Millisecond),
		// Detects a dead peer within 4 s, before the publish deadline.
		nats.PingInterval(2 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if b.closed.Load() {
				return
			}
			if err == nil {
				err = errors.New("closed by the server")
			}
			b.note(ErrUnhealthy.Because(fmt.Errorf("bus: connection lost: %w", err)))
			log.Warn("bus connection lost", "error", err)
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			log.Info("bus connection restored")
			b.stale.Store(true)
			app.Kick(b.look)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("bus connection error", "subject", subject, "error", err)
		}),
	}
	url := b.cfg.URL
	if b.cfg.Embedded != nil {
		opts = append(opts, nats.InProcessServer(b.cfg.Embedded))
		url = nats.DefaultURL // unused, but must parse
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return fmt.Errorf("bus: connect to NATS: %w", err)
	}
	b.nc = nc
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= 0 {
		return fmt.Errorf("bus: connect to NATS: %w", ctx.Err())
	}
	// An older server would refuse the stream with an error that does not name
	// the cause.
	leastMajor, leastMinor := serverVersion(MinVersion)
	if major, minor := serverVersion(nc.ConnectedServerVersion()); major < leastMajor || major == leastMajor && minor < leastMinor {
		return fmt.Errorf("bus: NATS at %s is version %s; %s or newer is needed", nc.ConnectedUrlRedacted(), nc.ConnectedServerVersion(), MinVersion)
	}
	b.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(replyTimeout), jetstream.WithPublishAsyncTimeout(b.cfg.PublishDeadline))
	if err != nil {
		return fmt.Errorf("bus: open JetStream: %w", err)
	}
	return nil
}

// serverVersion reads the first two numbers of "2.12.4"; anything else is 0, 0.
func serverVersion(text string) (major, minor int) {
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
		return 0, 0
	}
	return major, minor
}

// Close ends the background work and the connection, and stops the embedded
// server within ctx. Consumers must have been stopped before. Further calls
// have no effect.
func (b *Bus) Close(ctx context.Context) error {
	var err error
	b.closing.Do(func() {
		b.closed.Store(true)
		if b.end != nil {
			b.end()
		}
		if err = app.Await(ctx, b.background.Wait); err != nil { // a restart is blocked on the disk; the process exits anyway
			err = fmt.Errorf("bus: close: %w", err)
			return
		}
		if b.nc != nil {
			// Acks are sent without waiting; this flushes the last ones.
			if b.nc.IsConnected() {
				flush, cancel := context.WithTimeout(ctx, time.Second)
				err = b.nc.FlushWithContext(flush)
				cancel()
			}
			b.nc.Close()
		}
		if b.cfg.Embedded != nil {
			err = errors.Join(err, b.cfg.Embedded.Stop(ctx))
		}
	})
	return err
}
