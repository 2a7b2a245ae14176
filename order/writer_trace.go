package order

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"

	"stampede/platform/base/tracing"
)

// spanWrite is the span in which grants become orders: the transaction, with
// its retries, and the steps after its commit.
const spanWrite = "write orders"

// followMessages starts the writer's span below that of the first traced message,
// linked to the others. The events of the transaction carry it on.
func (s *Service) followMessages(ctx context.Context, messages []message) (context.Context, tracing.Span) {
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
	return s.deps.Trace.Follow(ctx, spanWrite, carried, attribute.Int("messages", len(messages)), attribute.Int("grants", grants))
}

var (
	errStopped = errors.New("stopped before the commit; the grants will be redelivered")
	errLocked  = errors.New("a row is locked; the grants are written item by item")
)

func notWritten(end ending) error {
	switch end {
	case stopped:
		return errStopped
	case locked:
		return errLocked
	case committed:
	}
	return nil
}
