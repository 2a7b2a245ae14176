package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The streams.
const (
	streamEvents = "EVENTS"
	// streamDelayed has the timers of instances of 0.10.0.
	streamDelayed = "DELAYED"
)

// prefixEvents begins the subjects of EVENTS.
const prefixEvents = "events."

const (
	// duplicateWindow is how long a stream remembers a message id. It exceeds
	// any publish deadline and the relay's repetition after a crash many times
	// over, and costs about 100 bytes a message; the inbox catches later
	// duplicates.
	duplicateWindow = 2 * time.Minute
	// EventsMaxAge is how long EVENTS keeps a message. It is a long weekend: a
	// consumer that was down since Friday night still finds every event on Monday.
	// The inbox remembers for 7 days, longer than an event can be delivered again.
	EventsMaxAge = 96 * time.Hour
	// clusterCopies lets one server of a cluster fail while the other two, the
	// majority, continue.
	clusterCopies = 3
	// replyTimeout bounds one request to the JetStream API.
	replyTimeout = 5 * time.Second
)

// fit makes the streams proportionally smaller if they would fill more than half of
// the free disk space, and reports whether it did: Postgres is on the same disk and
// must never run out of it.
func (b *Bus) fit(freeBytes int64) (smaller bool) {
	all, sum := []*int64{&b.events}, b.events
	for _, q := range b.queues {
		all, sum = append(all, &q.cfg.MaxBytes), sum+q.cfg.MaxBytes
	}
	half := freeBytes / 2
	if sum <= half {
		return false
	}
	for _, bytes := range all {
		*bytes = max(int64(float64(*bytes)*float64(half)/float64(sum)), smallestStreamBytes)
	}
	return true
}

// streamConfigs returns the required configuration of the streams.
func (b *Bus) streamConfigs() []jetstream.StreamConfig {
	var all []jetstream.StreamConfig
	for _, q := range b.queues {
		all = append(all, q.streamConfig())
	}
	return append(all, jetstream.StreamConfig{
		Name:        streamEvents,
		Description: "what modules tell each other after a commit",
		Subjects:    []string{prefixEvents + ">", prefixRedrive + ">"},
		// Not interest retention: with that policy an event published before a
		// new consumer first subscribes would vanish. The trimmer makes room
		// instead.
		Retention:  jetstream.LimitsPolicy,
		Discard:    jetstream.DiscardNew,
		MaxBytes:   b.events,
		MaxAge:     EventsMaxAge,
		Duplicates: duplicateWindow,
	})
}

// ensureStreams creates missing streams and updates existing ones to this
// version's settings. Any instance may call it at any time.
func (b *Bus) ensureStreams(ctx context.Context) error {
	for _, cfg := range b.streamConfigs() {
		var err error
		if cfg.Replicas, err = b.copiesOf(ctx, cfg.Name); err != nil {
			return err
		}
		stream, err := b.js.CreateOrUpdateStream(ctx, cfg)
		if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == codeNoPeers {
			return fmt.Errorf("bus: create stream %s: the NATS cluster must have %d servers with JetStream and room for it: %w", cfg.Name, cfg.Replicas, err)
		}
		if err != nil {
			return fmt.Errorf("bus: create stream %s: %w", cfg.Name, err)
		}
		if cfg.Name == streamEvents {
			b.eventsCreated.Store(stream.CachedInfo().Created.UnixNano())
		}
	}
	return nil
}

// copiesOf returns a stream's number of replicas: the current one, so that an
// operator may choose it with NATS's own tools, or for a new stream one, in a
// cluster three.
func (b *Bus) copiesOf(ctx context.Context, stream string) (int, error) {
	old, err := b.js.Stream(ctx, stream)
	switch {
	case err == nil:
		return old.CachedInfo().Config.Replicas, nil
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, fmt.Errorf("bus: look up stream %s: %w", stream, err)
	case b.nc.ConnectedClusterName() != "":
		return clusterCopies, nil
	}
	return 1, nil
}

// EventsCreated returns when the current EVENTS was created, by the NATS
// server's clock. It is unchanged by restarts and changes when the stream is
// recreated because its store was lost: events published before are then gone.
// It costs one atomic load.
func (b *Bus) EventsCreated() time.Time { return time.Unix(0, b.eventsCreated.Load()) }

// Identity names the NATS that this instance uses: the same for every instance of it, and
// another one after its store was lost. It is when EVENTS was created, asked of the server.
func (b *Bus) Identity(ctx context.Context) (string, error) {
	stream, err := b.stream(ctx, streamEvents)
	if err != nil {
		return "", err
	}
	return stream.CachedInfo().Created.UTC().Format(time.RFC3339Nano), nil
}

// streamOf returns the stream of a publisher's subject, "" for none.
func (b *Bus) streamOf(subject string) string {
	if q := b.queueOf(subject); q != nil {
		return q.cfg.Name
	}
	if strings.HasPrefix(subject, prefixEvents) || strings.HasPrefix(subject, prefixRedrive) {
		return streamEvents
	}
	return ""
}

// stream looks a stream up. One that is missing, the monitor creates again.
func (b *Bus) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := b.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		b.stale.Store(true)
	}
	if err != nil {
		return nil, fmt.Errorf("bus: get stream info of %s: %w", name, err)
	}
	return s, nil
}
