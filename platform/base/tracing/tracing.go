// Package tracing follows single orders through the system: one trace from the
// rush through the lane's batch, the decision, the durable message, the order
// writer's transaction, the outbox and its message to the push, and another
// from a payment's callback through its transaction to the push.
//
// A nil *Tracer means that tracing is off, which is the default unless an
// endpoint is configured. Its methods do nothing; code on the rush path calls
// On first, so that tracing costs one comparison and no allocation when it is
// off.
//
// Sampling is decided once, where a trace begins: a random share of the
// requests, before anything is built. Later steps follow that decision: a
// context or a message that carries no trace starts none. Traces that clients
// send are not continued, since any client could then force the shop to record
// its requests.
//
// Where many traces merge, the batch and the writer's transaction belong to the
// trace of the first traced attempt or message, and are linked with the others.
//
// Package export sends the spans.
package tracing

import (
	"context"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Tracer starts spans. A nil Tracer means that tracing is off. Safe for concurrent use.
type Tracer struct {
	tracer   trace.Tracer
	provider Provider
	share    float64
}

// Provider makes spans and sends them. Shutdown sends the rest.
type Provider interface {
	trace.TracerProvider
	Shutdown(ctx context.Context) error
}

// New returns a tracer that begins a trace for a share of the calls of Root, and whose
// spans the provider must all record.
func New(provider Provider, share float64) *Tracer {
	return &Tracer{tracer: provider.Tracer("stampede"), provider: provider, share: share}
}

// flushTimeout is how long a stop spends on the remaining spans, a small part
// of the 10 s that a process has to exit.
const flushTimeout = 2 * time.Second

// Stop sends the remaining spans within two seconds and ends. Spans that the
// collector does not accept in that time are lost, which does not fail the
// stop.
func (t *Tracer) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
	return nil
}

// On reports whether preparing a span is worthwhile.
func (t *Tracer) On() bool { return t != nil }

// Root begins a trace for a share of the calls and returns ctx unchanged for
// the others.
func (t *Tracer) Root(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, Span) {
	// Decided here and not by the library's sampler, which runs only after the
	// span is built.
	if t == nil || rand.Float64() >= t.share { //nolint:gosec // a sample needs no secrecy
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(attrs...))
	return ctx, Span{s}
}

// Child begins a span under the one in ctx, if there is one.
func (t *Tracer) Child(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithAttributes(attrs...))
	return ctx, Span{s}
}

// Follow begins a span under the first of the carried traces and links it to
// the others. Without any, it returns ctx unchanged.
func (t *Tracer) Follow(ctx context.Context, name string, carried []string, attrs ...attribute.KeyValue) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	var parent context.Context
	var links []trace.Link
	for _, c := range carried {
		if c == "" {
			continue
		}
		from := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{header: c})
		switch sc := trace.SpanContextFromContext(from); {
		case !sc.IsSampled(): // unreadable, or not sampled by its sender
		case parent == nil:
			parent = from
		default:
			links = append(links, trace.Link{SpanContext: sc})
		}
	}
	if parent == nil {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(parent, name, trace.WithAttributes(attrs...), trace.WithLinks(links...))
	return ctx, Span{s}
}

// header is the only W3C trace context field used here.
const header = "traceparent"

// Carry returns the W3C traceparent of ctx's span, to be stored in a message or
// a row and passed to Follow by its reader. Empty when ctx is not traced.
func Carry(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c[header]
}

// Current returns the span in ctx, so that a callee can add to it.
func Current(ctx context.Context) Span {
	s := trace.SpanFromContext(ctx)
	if !s.SpanContext().IsSampled() {
		return Span{}
	}
	return Span{s}
}

// ID returns the trace id of ctx, for log lines; empty when it is not traced.
func ID(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsSampled() {
		return ""
	}
	return sc.TraceID().String()
}

// Span is one step of a trace. The zero Span is not recorded; its methods do nothing.
type Span struct{ span trace.Span }

// On reports whether the step is recorded.
func (s Span) On() bool { return s.span != nil }

// Into returns ctx with this span in it, for steps below.
func (s Span) Into(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// Name replaces the span's name, for a name that is known only at the end.
func (s Span) Name(name string) {
	if s.span != nil {
		s.span.SetName(name)
	}
}

// Set adds attributes.
func (s Span) Set(attrs ...attribute.KeyValue) {
	if s.span != nil {
		s.span.SetAttributes(attrs...)
	}
}

// Link records that the other span continued this one's work.
func (s Span) Link(other Span) {
	if s.span != nil && other.span != nil {
		s.span.AddLink(trace.Link{SpanContext: other.span.SpanContext()})
	}
}

// End ends the span and records err if it is not nil. A span that is never
// ended is never sent.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}
