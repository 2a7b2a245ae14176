// Package outbox carries events from the transaction of their effect to the
// bus, so that neither exists without the other.
//
// Append writes a row in the caller's transaction. The Relay publishes rows to
// EVENTS under the row's id and marks them after the bus's acknowledgement: a
// crash in between publishes again, and the stream drops the duplicate within
// two minutes; the consumer's inbox catches later ones.
//
// # Order
//
// The relay takes unsent rows in the order of their ids, which is roughly the
// order of creation, except for those that are sent again (see below). It queries for unsent rows each time and keeps no
// position: ids of concurrent transactions become visible out of order, and a
// position would skip a late commit. Consumers must not rely on order and must
// compare the version in the payload.
//
// # One relay at a time
//
// Every instance runs a Relay; a transaction-level advisory lock lets one
// publish at a time. The lock ends with its transaction, so a crash releases it
// immediately, nothing has to be renewed, and it works through a connection
// pooler. The transaction stays open while its window is published: some 80 ms
// for 256 events, at most the bus's publish deadline. The relay gives up on a
// hanging Postgres after 10 s, and Postgres on a relay that publishes for 15 s or
// has frozen: another relay then sends the window again.
//
// # When the bus loses its events
//
// Marked rows are on EVENTS and are normally never sent again. When EVENTS was
// recreated (a fresh volume, a lost store), at the start or later, the relay
// unmarks the rows that were sent before, as far back as the stream would have
// kept them, and sends them again under their old ids: beside new events, which go
// first, and the newest of them before the older ones.
//
// # When the bus does not accept events
//
// Rows wait. The relay backs off from 50 ms to 5 s and never ends on an error.
// A row that the bus refuses by itself (an external server with a lower payload
// limit) raises the alarm "outbox-refused" and moves to platform.outbox_refused, so
// that it neither delays other rows nor keeps its day's partition. The relay tries it
// again after a minute, then after twice as long each time up to half an hour. Once it
// is sent, it is in the outbox again, under its id, so that a recall finds it. An event
// that is still refused a day after its first refusal (--retry-refused) has failed: the
// alarm "outbox-failed" is raised, and the row stays for --keep-records, until an
// operator redrives it (platform/watch/messages). Only a refusal of the event itself
// counts as an attempt: an outage of the bus fails nothing, however long it lasts.
//
// The other end, messages that arrived and could not be handled, is
// platform/watch/deadletters.
//
// # Lifecycle
//
// Relay.Run and Housekeeper.Run are workers: they block until their context
// ends. The relay then sends the remaining rows, for 3 s at most; stop it after
// the components that write rows. Wake makes the relay pick up a commit
// immediately; otherwise a pulse finds the row within 200 ms (platform/store/pulse).
package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

// Oldest returns the subject and the age of the oldest unsent event, or "" and
// 0 if all are sent.
func Oldest(ctx context.Context, pool *pgxpool.Pool) (subject string, age time.Duration, err error) {
	oldest, err := outboxdb.New(pool).OldestUnsent(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("outbox: read the oldest row: %w", err)
	}
	return oldest.Subject, time.Duration(oldest.Age * float64(time.Second)), nil
}

// Settings are how long refused events are tried and how long records stay. KeepRecords' minimum is longer than any message
// stays on the bus, so that a record outlives its message; the default is a
// quarter, so that the last campaign's records can be read before the next one.
type Settings struct {
	RetryRefused time.Duration `default:"24h" env:"STAMPEDE_RETRY_REFUSED" help:"How long an event that NATS refuses by itself, such as one too large, is tried again before it is kept as failed. The time of an outage of NATS does not fail an event." min:"1m" max:"168h" rare:""`
	KeepRecords  time.Duration `default:"2160h" env:"STAMPEDE_KEEP_RECORDS" help:"How long to keep dead letters, failed events, alarms that no longer occur, reservations after their session has ended, shopper restrictions, and what shoppers told about themselves for an order after it has ended; 2160h is 90 days. Ended blacklist entries, which contain phones and addresses, are removed after 720h at the latest." min:"168h"`
}
