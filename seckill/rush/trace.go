package rush

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"stampede/platform/base/tracing"
)

// Span names of a traced rush. The spans of a batch's message and everything
// after it are children of the batch's span.
const (
	spanRush    = "rush"
	spanBatch   = "lane batch"
	spanReserve = "reserve"
)

// follow starts a trace of one in so many attempts, as it enters its lane:
// attempts refused at the door are never traced.
func (r *Service) follow(t *token) tracing.Span {
	// The trace outlives the request: the writer and the push continue it.
	_, span := r.deps.Trace.Root(context.Background(), spanRush)
	if span.On() {
		span.Set(attribute.String("order_no", t.no.String()), attribute.Int64("item_id", t.item))
	}
	return span
}

// endAttempt ends an attempt's span with its answer. The span of an attempt
// that the full lane refused is not ended, so it is not sent.
func endAttempt(a *attempt, v verdict) {
	if a.span.On() {
		a.span.Set(attribute.String("code", v.outcome.String()))
		a.span.End(nil)
	}
}

// follow starts the batch's span, below the first traced attempt; the others
// are linked to it.
func (w *laneWorker) follow(ctx context.Context) (context.Context, tracing.Span) {
	t := w.lane.line.trace
	var batch tracing.Span
	for _, a := range w.waiting {
		switch {
		case !a.span.On():
		case !batch.On():
			ctx, batch = t.Child(a.span.Into(ctx), spanBatch)
			batch.Set(attribute.Int64("item_id", w.lane.item), attribute.Int("attempts", len(w.waiting)))
		default:
			a.span.Link(batch)
		}
	}
	return ctx, batch
}
