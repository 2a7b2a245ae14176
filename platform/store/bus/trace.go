package bus

import (
	"context"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"

	"stampede/platform/base/tracing"
)

// traceHeader carries a message's W3C traceparent. Messages without a trace do
// not have it.
const traceHeader = "traceparent"

// Span names of messages.
const (
	spanPublish = "publish"
	spanHandle  = "handle "
)

// carry writes ctx's trace into a message.
func carry(ctx context.Context, msg *nats.Msg) {
	if c := tracing.Carry(ctx); c != "" {
		msg.Header[traceHeader] = []string{c}
		tracing.Current(ctx).Set(attribute.String("subject", msg.Subject))
	}
}

// traced builds a message, and begins a span if it carries a trace.
func (b *Bus) traced(ctx context.Context, o Outgoing) (*nats.Msg, tracing.Span) {
	msg := message(o.Subject, o.ID, o.Data)
	if o.Trace == "" {
		return msg, tracing.Span{}
	}
	ctx, span := b.cfg.Trace.Follow(ctx, spanPublish, []string{o.Trace})
	carry(ctx, msg)
	return msg, span
}

// follow begins the span of handling a message.
func (c *consumer) follow(ctx context.Context, m Msg) (context.Context, tracing.Span) {
	return c.bus.cfg.Trace.Follow(ctx, spanHandle+c.sub.Name, []string{m.Trace},
		attribute.String("subject", m.Subject), attribute.Int("attempt", m.Attempt))
}
