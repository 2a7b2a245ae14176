package rush

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"stampede/platform/base/tracing"
)

// Names of the steps of a rush that is followed. The message that a batch
// becomes, and whatever comes of it, are steps below the batch's.
const (
	spanRush    = "rush"
	spanBatch   = "lane batch"
	spanReserve = "reserve"
)

// follow begins the trace of one in so many attempts, as it enters its lane:
// whoever is refused at the door is never followed.
func (r *Service) follow(t *token) tracing.Span {
	// A trace outlives the request: the writer and the push go on with it.
	_, span := r.deps.Trace.Root(context.Background(), spanRush)
	if span.On() {
		span.Set(attribute.String("order_no", t.no.String()), attribute.Int64("item_id", t.item))
	}
	return span
}

// endAttempt ends an attempt's step with its answer. That of an attempt that
// the full lane turned away is not ended, so it is not sent.
func endAttempt(a *attempt, v verdict) {
	if a.span.On() {
		a.span.Set(attribute.String("code", v.outcome.String()))
		a.span.End(nil)
	}
}

// follow begins the batch's step, below the first attempt that is followed; the
// others are linked to it.
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
