package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
	"stampede/platform/base/tracing"
	"stampede/platform/store/outbox/internal/outboxdb"
)

// MaxPayloadBytes fits in a NATS message with its headers at the server's
// default limit of 1 MiB. It is some 2,000 orders; a writer of more splits them
// over several rows.
const MaxPayloadBytes = 1_000_000

// Append writes an event in the transaction of its effect and returns its id,
// which is the message's id on the bus. payload is encoded as JSON; a []byte or
// json.RawMessage is used unchanged. After the commit, call Relay.Wake to send
// it without delay. The event carries the trace in ctx.
func Append(ctx context.Context, tx pgx.Tx, subject string, payload any) (ids.ID, error) {
	if !strings.HasPrefix(subject, "events.") && !strings.HasPrefix(subject, "redrive.") || strings.ContainsAny(subject, " *>") {
		return ids.ID{}, fmt.Errorf("outbox: append: subject %q is not on EVENTS", subject)
	}
	var data []byte
	switch p := payload.(type) {
	case []byte:
		data = p
	case json.RawMessage:
		data = p
	default:
		var err error
		if data, err = json.Marshal(payload); err != nil {
			return ids.ID{}, fmt.Errorf("outbox: encode %s: %w", subject, err)
		}
	}
	if data == nil {
		data = []byte{} // the column is NOT NULL
	}
	if len(data) > MaxPayloadBytes {
		return ids.ID{}, fmt.Errorf("outbox: append %s: payload has %d bytes, the limit is %d", subject, len(data), MaxPayloadBytes)
	}
	id := ids.New()
	row := outboxdb.AppendEventParams{ID: id, Subject: subject, Payload: data, Trace: tracing.Carry(ctx)}
	if err := outboxdb.New(tx).AppendEvent(ctx, row); err != nil {
		return ids.ID{}, fmt.Errorf("outbox: append %s: %w", subject, err)
	}
	return id, nil
}
