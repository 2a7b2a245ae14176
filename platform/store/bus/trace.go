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

// tracedMessages contains the spans of the traced ones among many messages; nil
// if none is traced.
type tracedMessages map[int]tracedMessage

type tracedMessage struct {
	span tracing.Span
	name string
}

// traceAll begins a span for each message that carries a trace.
func (b *Bus) traceAll(ctx context.Context, out []Outgoing) tracedMessages {
	if !b.cfg.Trace.On() {
		return nil
	}
	var all tracedMessages
	for i := range out {
		if out[i].Trace == "" {
			continue
		}
		if all == nil {
			all = make(tracedMessages)
		}
		followed, span := b.cfg.Trace.Follow(ctx, spanPublish, []string{out[i].Trace}, attribute.String("subject", out[i].Subject))
		all[i] = tracedMessage{span, tracing.Carry(followed)}
	}
	return all
}

// message builds the i-th message, with its trace.
func (t tracedMessages) message(i int, o Outgoing) *nats.Msg {
	msg := message(o.Subject, o.ID, o.Data)
	if name := t[i].name; name != "" {
		msg.Header[traceHeader] = []string{name}
	}
	return msg
}

// end ends the spans with each message's result.
func (t tracedMessages) end(errs []error) {
	for i, m := range t {
		m.span.End(errs[i])
	}
}

// follow begins the span of handling a message.
func (c *consumer) follow(ctx context.Context, m Msg) (context.Context, tracing.Span) {
	return c.bus.cfg.Trace.Follow(ctx, spanHandle+c.sub.Name, []string{m.Trace},
		attribute.String("subject", m.Subject), attribute.Int("attempt", m.Attempt))
}
