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
	streamGrants  = "GRANTS"
	streamEvents  = "EVENTS"
	streamDelayed = "DELAYED"
)

// Subject prefixes, each owned by one stream.
const (
	prefixGrants     = "grants."
	prefixEvents     = "events."
	prefixDelayedAt  = "delayed.at."
	prefixDelayedDue = "delayed.due."
)

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
	// maxDelayedBytes is room for some 300,000 timers of 200 bytes. Each writer
	// batch adds one, so that is hours of a full rush.
	maxDelayedBytes = 64 << 20
	// clusterCopies lets one server of a cluster fail while the other two, the
	// majority, continue.
	clusterCopies = 3
	// replyTimeout bounds one request to the JetStream API.
	replyTimeout = 5 * time.Second
)

// bounds are the streams' sizes in bytes.
type bounds struct{ grants, events, delayed int64 }

func (b bounds) sum() int64 { return b.grants + b.events + b.delayed }

// boundsFor returns the configured sizes, or proportionally smaller ones if
// they would fill more than half of the free disk space: Postgres is on the
// same disk and must never run out of it.
func boundsFor(cfg Config, freeBytes int64) bounds {
	b := bounds{grants: cfg.GrantsMaxMiB << 20, events: cfg.EventsMaxMiB << 20, delayed: maxDelayedBytes}
	if half := freeBytes / 2; b.sum() > half {
		scale := float64(half) / float64(b.sum())
		fit := func(bytes int64) int64 { return max(int64(float64(bytes)*scale), smallestStreamBytes) }
		b = bounds{grants: fit(b.grants), events: fit(b.events), delayed: fit(b.delayed)}
	}
	return b
}

// streamConfigs returns the required configuration of the streams.
func (b *Bus) streamConfigs() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{{
		Name:        streamGrants,
		Description: "granted attempts that the order writer has not yet written",
		Subjects:    []string{prefixGrants + ">"},
		Retention:   jetstream.WorkQueuePolicy,
		Discard:     jetstream.DiscardNew,
		MaxBytes:    b.bounds.grants,
		Duplicates:  duplicateWindow,
		Metadata:    map[string]string{deadlineKey: b.cfg.PublishDeadline.String()},
	}, {
		Name:        streamEvents,
		Description: "what modules tell each other after a commit",
		Subjects:    []string{prefixEvents + ">", prefixRedrive + ">"},
		// Not interest retention: with that policy an event published before a
		// new consumer first subscribes would vanish. The trimmer makes room
		// instead.
		Retention:  jetstream.LimitsPolicy,
		Discard:    jetstream.DiscardNew,
		MaxBytes:   b.bounds.events,
		MaxAge:     EventsMaxAge,
		Duplicates: duplicateWindow,
	}, {
		Name:        streamDelayed,
		Description: "timers, pending and due but not yet forwarded",
		Subjects:    []string{prefixDelayedAt + "*", prefixDelayedDue + ">"},
		Retention:   jetstream.LimitsPolicy,
		// A stream with schedules cannot refuse messages. When full it drops
		// only wake-ups: the sweepers find everything due without them.
		Discard:           jetstream.DiscardOld,
		MaxBytes:          b.bounds.delayed,
		Duplicates:        duplicateWindow,
		AllowMsgSchedules: true,
	}}
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

// streamOf returns the stream of a publisher's subject, "" for none.
func streamOf(subject string) string {
	switch {
	case strings.HasPrefix(subject, prefixGrants):
		return streamGrants
	case strings.HasPrefix(subject, prefixEvents), strings.HasPrefix(subject, prefixRedrive):
		return streamEvents
	case strings.HasPrefix(subject, prefixDelayedAt):
		return streamDelayed
	}
	return ""
}
