package order

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"stampede/inventory"
	"stampede/platform/base/failpoint"
	"stampede/platform/base/ids"
	"stampede/platform/base/tracing"
	"stampede/platform/store/bus"
	"stampede/seckill/seckillevent"
)

// The points around a batch's acknowledgement at which a test ends the process.
var (
	afterCommit = failpoint.New("after-commit",
		"The order writer has committed, and neither Redis nor the relay nor NATS knows.")
	beforeAck = failpoint.New("before-ack",
		"The order writer has committed and updated Redis, and its messages are not acknowledged yet.")
)

// maxQuantity is ten times the largest limit per user. It keeps the sum of one
// transaction's units within an int32.
const maxQuantity = 10_000

// sensible reports whether a grant can become an order. The number must carry
// its user's bucket: lookups use the bucket of the number.
func sensible(g seckillevent.Grant) bool {
	return !g.No.IsZero() && g.User > 0 && g.Quantity > 0 && g.Quantity <= maxQuantity && g.No.Bucket() == ids.Bucket(g.User)
}

// afterCommit updates everything that waits for the commit: the order cache,
// the relay, the stock in Redis, and NATS. All except the acks are optional: if this
// process ends here, another part repeats each (order-cache subscription, relay's
// poll, hold sweeper).
func (w *writer) afterCommit(ctx context.Context, messages []message, out settled) {
	afterCommit.Pass()
	told := w.cached.begin(out.events)
	ended := slices.Concat(out.created, out.refused)
	err := w.cache.putNew(ctx, ended, visibleByWriter)
	told(err == nil)
	if err != nil {
		w.deps.Log.WarnContext(ctx, "new orders not cached, the event subscription will do it", "orders", len(ended), "error", err)
	}
	// After the cache, so that a poll triggered by the push does not read
	// "queued".
	w.deps.Outbox.Wake()
	w.metrics.sawVisible(messages)
	w.markPersisted(ctx, messages)
	beforeAck.Pass()
	for _, m := range messages {
		w.ack(ctx, m.Msg)
	}

	w.metrics.batchSize.Observe(float64(len(out.created) + len(out.refused) + out.known))
	w.metrics.tallied(ended)
	w.metrics.written.WithLabelValues("created").Add(float64(len(out.created)))
	w.metrics.written.WithLabelValues("known").Add(float64(out.known))
	for i := range out.refused {
		w.metrics.written.WithLabelValues(out.refused[i].Reason).Inc()
	}
}

// markPersisted marks in Redis which numbers have a row now, so that the line
// moves up and the hold sweeper leaves them alone. Refused numbers have a row
// too; the event returns their units.
func (w *writer) markPersisted(ctx context.Context, messages []message) {
	type place struct {
		item  inventory.Item
		epoch int64
	}
	nos := make(map[place][]ids.ID, 1)
	for _, m := range messages {
		b := m.batch
		at := place{epoch: b.Epoch, item: inventory.Item{ID: b.ItemID, ActivityID: b.ActivityID, Shard: b.Shard, PerActivity: b.PerActivity}}
		have := slices.Grow(nos[at], len(b.Grants))
		for i := range b.Grants {
			have = append(have, b.Grants[i].No)
		}
		nos[at] = have
	}
	written := make([]inventory.Written, 0, len(nos))
	for at, list := range nos {
		written = append(written, inventory.Written{Item: at.item, Epoch: at.epoch, Nos: list})
	}
	ctx, cancel := context.WithTimeout(ctx, cacheWrite)
	defer cancel()
	if err := w.deps.Stock.Persisted(ctx, written...); err != nil {
		w.deps.Log.WarnContext(ctx, "holds not marked persisted, the hold sweeper will do it", "items", len(written), "error", err)
	}
}

func (w *writer) ack(ctx context.Context, m bus.Msg) {
	if err := m.Ack(); err != nil {
		w.deps.Log.WarnContext(ctx, "grants not acknowledged, they will be redelivered", "message_id", m.ID, "error", err)
	}
}

// spanWrite is the span in which grants become orders: the transaction, with
// its retries, and the steps after its commit.
const spanWrite = "write orders"

// followMessages starts the writer's span below that of the first traced message,
// linked to the others. The events of the transaction carry it on.
func (w *writer) followMessages(ctx context.Context, messages []message) (context.Context, tracing.Span) {
	var carried []string
	grants := 0
	for i := range messages {
		grants += len(messages[i].batch.Grants)
		if c := messages[i].Trace; c != "" {
			carried = append(carried, c)
		}
	}
	if carried == nil {
		return ctx, tracing.Span{}
	}
	return w.deps.Trace.Follow(ctx, spanWrite, carried, attribute.Int("messages", len(messages)), attribute.Int("grants", grants))
}

// notWritten is what a span says of an ending without a commit.
var notWritten = map[ending]error{
	stopped: errors.New("stopped before the commit; the grants will be redelivered"),
	locked:  errors.New("a row is locked; the grants are written item by item"),
}
