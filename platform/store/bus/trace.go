package bus

import (
	"context"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"

	"stampede/platform/base/tracing"
)

// traceHeader carries a message's trace, in the words of W3C. Messages that
// nobody follows do without.
const traceHeader = "traceparent"

// Names of the steps that messages make.
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

// tracedMessages are the steps of those of many messages that are followed; nil
// when none is.
type tracedMessages map[int]tracedMessage

type tracedMessage struct {
	span tracing.Span
	name string
}

// traceAll begins a step for each message that brings a trace along.
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

// message makes the i-th message, with its trace.
func (t tracedMessages) message(i int, o Outgoing) *nats.Msg {
	msg := message(o.Subject, o.ID, o.Data)
	if name := t[i].name; name != "" {
		msg.Header[traceHeader] = []string{name}
	}
	return msg
}

// end ends the steps by how the messages fared.
func (t tracedMessages) end(errs []error) {
	for i, m := range t {
		m.span.End(errs[i])
	}
}

// follow begins the step of handling a message.
func (c *consumer) follow(ctx context.Context, m Msg) (context.Context, tracing.Span) {
	return c.bus.cfg.Trace.Follow(ctx, spanHandle+c.sub.Name, []string{m.Trace},
		attribute.String("subject", m.Subject), attribute.Int("attempt", m.Attempt))
}
