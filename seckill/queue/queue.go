package queue

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/seckill/catalogue"
	"stampede/seckill/seckillevent"
)

// Settings are what an operator may set about the queue.
type Settings struct {
	GrantsMaxMiB int64 `name:"grants-max-mib" default:"512" env:"STAMPEDE_GRANTS_MAX_MIB" help:"Most MiB of grants that wait for the order writer, about 25,000 grants each; keep it well below the free disk." min:"1" max:"1048576" group:"Disk and records:" rare:""`
}

const (
	stream = "GRANTS"
	// batch is the most that one transaction handles: 64 messages of up to 512
	// grants. More would lock the stock rows longer without being cheaper per order.
	batch = 64
	// ackWait is how long the batch of a dead writer waits before another instance
	// gets it.
	ackWait = 10 * time.Second
)

// Config describes the queue to the bus.
func (s Settings) Config() bus.QueueConfig {
	return bus.QueueConfig{
		Name: stream, Description: "granted attempts that the order writer has not yet written", Prefix: seckillevent.GrantsPrefix,
		MaxBytes: s.GrantsMaxMiB << 20, Consumer: "order-writer", Batch: batch, AckWait: ackWait,
	}
}

// Queue is the queue of grants. Safe for concurrent use.
type Queue struct {
	*bus.Queue

	bus       *bus.Bus
	catalogue *catalogue.Catalogue
	log       *slog.Logger
	metrics   *metrics
	backlog   atomic.Pointer[backlog] // nil until the queue was seen
	// The constants of these names, which tests shorten.
	stalledAfter, skippedAfter time.Duration
}

// New returns the queue of an open bus that was given its Config. items are those whose
// grants it can publish again. Tests change it before it is watched.
func New(b *bus.Bus, items *catalogue.Catalogue, log *slog.Logger, reg prometheus.Registerer, change ...func(*Queue)) *Queue {
	q := &Queue{
		Queue: b.Queue(stream), bus: b, catalogue: items, log: log, metrics: newMetrics(reg),
		stalledAfter: stalledAfter, skippedAfter: skippedAfter,
	}
	for _, f := range change {
		f(q)
	}
	q.Watch(q.look)
	return q
}

// Healthy returns nil when the queue takes messages, else bus.ErrFull or
// bus.ErrUnhealthy. It costs one atomic load.
func (q *Queue) Healthy(ctx context.Context) error { return q.bus.Healthy(ctx) }

// Publish stores a batch, encoded as data, or returns an error as bus.Publish does.
func (q *Queue) Publish(ctx context.Context, b *seckillevent.Batch, data []byte) error {
	return q.bus.Publish(ctx, seckillevent.GrantsSubject(b.ItemID), b.ID, data)
}

// Done reports whether every message of an item up to and including the sequence upTo
// has been acknowledged.
func (q *Queue) Done(ctx context.Context, itemID int64, upTo uint64) (bool, error) {
	first, err := q.First(ctx, seckillevent.GrantsSubject(itemID))
	return err == nil && (first == 0 || first > upTo), err
}

// Republish publishes grants of one epoch and shard of an item once more, at most
// inventory.MaxBatch. A Load calls it with the open holds that it finds: they have
// neither a message nor an order. It returns when they are stored; after an error they
// may be or not. The writer accepts each number once.
func (q *Queue) Republish(ctx context.Context, itemID int64, holds []inventory.StaleHold) error {
	item, ok := q.catalogue.Item(itemID)
	if !ok {
		return fmt.Errorf("seckill: item %d is not in the catalogue", itemID)
	}
	var b seckillevent.Batch
	Describe(&b, item, holds[0].Shard, holds[0].Epoch)
	for _, h := range holds {
		b.Grants = append(b.Grants, seckillevent.Grant{No: h.No, User: h.User, Quantity: h.Quantity, PayWithin: h.PayWithin, Seq: h.Seq})
	}
	if err := q.Publish(ctx, &b, b.Encode(nil)); err != nil {
		return fmt.Errorf("publish grants again: %w", err)
	}
	q.metrics.republished.Add(float64(len(b.Grants)))
	q.log.WarnContext(ctx, "grants published again", "item_id", itemID, "epoch", b.Epoch, "grants", len(b.Grants))
	return nil
}

// Describe fills in all fields of a batch except its grants, under a new message id.
func Describe(b *seckillevent.Batch, item *catalogue.Item, shard int16, epoch int64) {
	b.ID = ids.New()
	b.ItemID, b.ActivityID, b.SessionID = item.ID, item.ActivityID, item.SessionID
	b.Shard, b.Epoch = shard, epoch
	b.UnitPrice, b.Currency, b.Title = item.SalePrice, item.Currency, item.Title
	b.PayWindow, b.PerActivity = item.PayWindow, item.PerActivity
}

const (
	// stalledAfter is how long messages may wait while none leaves the queue: longer
	// than the order writer retries through a failover of Postgres.
	stalledAfter = 10 * time.Second
	// skippedAfter is how long the oldest grant stays the same before its consumer
	// is asked about it: a message is removed within milliseconds of its ack.
	skippedAfter = 2 * time.Second
)

type metrics struct {
	messages, bytes        prometheus.Gauge
	persisted, republished prometheus.Counter // stale holds that the sweeper settled
}

func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	swept := func(how string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_seckill_swept_holds_total", ConstLabels: prometheus.Labels{"how": how},
			Help: "Stale holds that the sweeper settled, by what it did: persisted, republished.",
		})
	}
	return &metrics{
		messages: auto.NewGauge(prometheus.GaugeOpts{
			Name: "stampede_bus_grants_messages", Help: "Messages on GRANTS that the order writer has not acknowledged.",
		}),
		bytes: auto.NewGauge(prometheus.GaugeOpts{
			Name: "stampede_bus_grants_bytes", Help: "Size of GRANTS on disk.",
		}),
		persisted: swept("persisted"), republished: swept("republished"),
	}
}

// backlog is what was last seen of the queue. It is immutable.
type backlog struct {
	bus.QueueState
	at          time.Time
	since       time.Time // since when none has left, although some waited
	oldestSince time.Time // since when the oldest is the same
}

// next is the look after l, nil before the first.
func (l *backlog) next(s bus.QueueState, now time.Time) *backlog {
	n := &backlog{QueueState: s, at: now, since: now, oldestSince: now}
	if l == nil || l.Messages == 0 || n.Messages == 0 {
		return n
	}
	if l.Handled() == n.Handled() {
		n.since = l.since
	}
	if l.First == n.First {
		n.oldestSince = l.oldestSince
	}
	return n
}

// look is called by the bus's monitor.
func (q *Queue) look(ctx context.Context, s bus.QueueState) {
	q.metrics.messages.Set(float64(s.Messages))
	q.metrics.bytes.Set(float64(s.Bytes))
	now := q.backlog.Load().next(s, time.Now())
	q.backlog.Store(now)
	if err := q.redeliverSkipped(ctx, now); err != nil {
		q.log.WarnContext(ctx, "oldest grant not compared with its consumer", "error", err)
	}
}

// redeliverSkipped has everything delivered again when the consumer counts the oldest
// message as acknowledged and the queue has kept it.
func (q *Queue) redeliverSkipped(ctx context.Context, now *backlog) error {
	if now.at.Sub(now.oldestSince) < q.skippedAfter {
		return nil
	}
	acknowledged, err := q.Acknowledged(ctx)
	if err != nil || acknowledged < now.First {
		return err // it is being written
	}
	q.log.ErrorContext(ctx, "consumer of grants skipped a message, delivering what is left again", "sequence", now.First)
	return q.Redeliver(ctx)
}

// Moving returns an error if messages wait and none has left the queue for a while: the
// order writer of no instance makes progress. It costs one atomic load.
func (q *Queue) Moving(context.Context) error {
	last := q.backlog.Load()
	if last == nil {
		return nil // Healthy says why there was no look
	}
	if still := last.at.Sub(last.since); still >= q.stalledAfter {
		return fmt.Errorf("seckill: %d messages wait for the order writer, and none has left the queue for %s", last.Messages, still.Round(time.Second))
	}
	return nil
}
