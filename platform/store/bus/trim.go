package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/app"
)

// trimEvery is short against the time in which a full rush fills half of
// EVENTS: 450 bytes for each of 50,000 orders a second are 22 MiB/s, half of
// the default bound takes 23 s.
const trimEvery = 5 * time.Second

// trimmer makes room on EVENTS when it is more than half full, by dropping
// what every shared consumer has acknowledged. Until then events stay for their
// full age, for an operator who investigates an incident.
func (b *Bus) trimmer(ctx context.Context) {
	_ = app.Loop{Every: trimEvery, Log: b.cfg.Log, Failed: "trimming of events failed", Do: func(ctx context.Context) error {
		if b.unhealthy() == nil {
			return b.trim(ctx)
		}
		return nil
	}}.Run(ctx) // ends only with ctx
}

func (b *Bus) trim(ctx context.Context) error {
	events, err := b.stream(ctx, streamEvents)
	if err != nil {
		return err
	}
	info := events.CachedInfo()
	if info.Config.MaxBytes <= 0 || info.State.Bytes < uint64(info.Config.MaxBytes)/2 {
		return nil
	}
	if err := b.removeUnclaimed(ctx); err != nil {
		return err
	}
	floor, shared, slowest := info.State.LastSeq, 0, ""
	list := events.ListConsumers(ctx)
	for c := range list.Info() {
		if c.Config.Durable == "" {
			continue // per instance: hints, delivered within milliseconds
		}
		shared++
		// A consumer without backlog has consumed everything up to the last
		// sequence read before, though its own floor stays at the last message
		// it matched.
		if behind := c.NumPending > 0 || c.NumAckPending > 0; behind && c.AckFloor.Stream < floor {
			floor, slowest = c.AckFloor.Stream, c.Name
		}
	}
	if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return fmt.Errorf("bus: list consumers: %w", err)
	}
	if b.keptFor.Swap(slowest) != slowest && slowest != "" {
		b.cfg.Log.WarnContext(ctx, "events are kept for a slow consumer", "consumer", slowest, "bytes", info.State.Bytes)
	}
	if shared == 0 || floor < info.State.FirstSeq {
		return nil // no consumer has acknowledged anything yet
	}
	if err := events.Purge(ctx, jetstream.WithPurgeSequence(floor+1)); err != nil {
		return fmt.Errorf("bus: trim %s: %w", streamEvents, err)
	}
	b.cfg.Log.InfoContext(ctx, "events trimmed", "up_to", floor, "bytes_before", info.State.Bytes)
	return nil
}
