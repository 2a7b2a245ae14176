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
	// duplicateWindow is how long a stream remembers a message id. It covers any
	// publish deadline and the relay's repetition after a crash many times over,
	// and costs about 100 bytes a message; what comes later meets the inbox.
	duplicateWindow = 2 * time.Minute
	// EventsMaxAge is how long EVENTS keeps a message. It is a long weekend: a
	// consumer that was down since Friday night still finds every event on Monday.
	// The inbox remembers for 7 days, longer than an event can be delivered again.
	EventsMaxAge = 96 * time.Hour
	// maxDelayedBytes holds some 300,000 timers of 200 bytes. One goes out per
	// writer batch, so that is hours of a full rush.
	maxDelayedBytes = 64 << 20
	// clusterCopies lets one server of a cluster fail while the other two, which are
	// the majority, go on.
	clusterCopies = 3
	// replyTimeout bounds one request to JetStream's own interface.
	replyTimeout = 5 * time.Second
)

// bounds are the streams' sizes in bytes.
type bounds struct{ grants, events, delayed int64 }

func (b bounds) sum() int64 { return b.grants + b.events + b.delayed }

// boundsFor returns the configured sizes, or smaller ones in the same
// proportion where they would fill more than half of what the disk has left:
// Postgres lives on the same disk and must never meet its end.
func boundsFor(cfg Config, freeBytes int64) bounds {
	b := bounds{grants: cfg.GrantsMaxMiB << 20, events: cfg.EventsMaxMiB << 20, delayed: maxDelayedBytes}
	if half := freeBytes / 2; b.sum() > half {
		scale := float64(half) / float64(b.sum())
		fit := func(bytes int64) int64 { return max(int64(float64(bytes)*scale), smallestStreamBytes) }
		b = bounds{grants: fit(b.grants), events: fit(b.events), delayed: fit(b.delayed)}
	}
	return b
}

// streamConfigs is what the streams must look like.
func (b *Bus) streamConfigs() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{{
		Name:        streamGrants,
		Description: "granted attempts that the order writer has not written yet",
		Subjects:    []string{prefixGrants + ">"},
		Retention:   jetstream.WorkQueuePolicy,
		Discard:     jetstream.DiscardNew,
		MaxBytes:    b.bounds.grants,
		Duplicates:  duplicateWindow,
	}, {
		Name:        streamEvents,
		Description: "what modules tell each other after a commit",
		Subjects:    []string{prefixEvents + ">", prefixRedrive + ">"},
		// Not by interest: with that policy an event published before a new
		// consumer first subscribes would vanish. The trimmer makes room instead.
		Retention:  jetstream.LimitsPolicy,
		Discard:    jetstream.DiscardNew,
		MaxBytes:   b.bounds.events,
		MaxAge:     EventsMaxAge,
		Duplicates: duplicateWindow,
	}, {
		Name:        streamDelayed,
		Description: "timers, and those that are due and not forwarded yet",
		Subjects:    []string{prefixDelayedAt + "*", prefixDelayedDue + ">"},
		Retention:   jetstream.LimitsPolicy,
		// A stream with schedules cannot refuse. What it drops when full is a
		// wake-up only: the sweepers find all that is due without it.
		Discard:           jetstream.DiscardOld,
		MaxBytes:          b.bounds.delayed,
		Duplicates:        duplicateWindow,
		AllowMsgSchedules: true,
	}}
}

// ensureStreams creates what is missing and brings what exists to this
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

// copiesOf is how many servers hold a stream: those that it has, so that an
// operator may choose with NATS's own tools, and else one, or three in a cluster.
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

// EventsCreated is when EVENTS, as it is now, was created, by the NATS server's
// clock. It stays the same through restarts and changes when the stream had to be
// made anew because its store was lost: what was published before is gone then.
// It costs one atomic load.
func (b *Bus) EventsCreated() time.Time { return time.Unix(0, b.eventsCreated.Load()) }

// streamOf names the stream that a publisher's subject belongs to, "" for none.
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
