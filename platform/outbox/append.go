package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/platform/ids"
	"stampede/platform/telemetry/tracing"
)

// MaxPayloadBytes is what fits a NATS message at its server's default limit of
// 1 MiB with its headers. Some 2,000 orders; a writer of more splits them over
// several rows.
const MaxPayloadBytes = 1_000_000

// Append writes an event into the transaction of its effect and returns its
// id, which is the message's id on the bus. payload is encoded as JSON, a
// []byte or json.RawMessage is taken as it is. After the commit, Relay.Wake
// sends it on without delay. A trace in ctx goes along with the event.
func Append(ctx context.Context, tx pgx.Tx, subject string, payload any) (ids.ID, error) {
	if !strings.HasPrefix(subject, "events.") && !strings.HasPrefix(subject, "redrive.") || strings.ContainsAny(subject, " *>") {
		return ids.ID{}, fmt.Errorf("outbox: append: subject %q is not one on EVENTS", subject)
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
		data = []byte{} // the column takes no NULL
	}
	if len(data) > MaxPayloadBytes {
		return ids.ID{}, fmt.Errorf("outbox: append %s: payload has %d bytes, %d are allowed", subject, len(data), MaxPayloadBytes)
	}
	id := ids.New()
	if _, err := tx.Exec(ctx, `INSERT INTO platform.outbox (id, subject, payload, trace) VALUES ($1, $2, $3, NULLIF($4, ''))`,
		id, subject, data, tracing.Carry(ctx)); err != nil {
		return ids.ID{}, fmt.Errorf("outbox: append %s: %w", subject, err)
	}
	return id, nil
}
