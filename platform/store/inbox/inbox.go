// Package inbox makes the effect of a message happen once although the message
// may be delivered several times.
//
// A consumer calls Fresh in the transaction of its effect, with the message's
// id and its own name: the row commits with the effect, so a redelivery finds it
// and has no effect. Rows are kept for 7 days, longer than the bus keeps a
// message.
//
// Concurrency: two transactions with the same message wait for each other on
// the inbox's key; the second one finds the message not fresh once the first
// has committed, fresh when it rolled back.
package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
	"stampede/platform/store/inbox/internal/inboxdb"
)

// Fresh records in tx that consumer has handled these messages, and returns
// those that are new to it, each with true. A repeated id is recorded once: a
// caller that may have two copies of a message deletes the id from the map
// after its first use. A zero id is an error, because a message without an id
// cannot be told from another.
func Fresh(ctx context.Context, tx pgx.Tx, consumer string, msgIDs []ids.ID) (map[ids.ID]bool, error) {
	if len(msgIDs) == 0 {
		return map[ids.ID]bool{}, nil
	}
	sorted := slices.Clone(msgIDs)
	slices.SortFunc(sorted, func(a, b ids.ID) int { return bytes.Compare(a[:], b[:]) })
	sorted = slices.Compact(sorted)
	days := make([]time.Time, len(sorted))
	for i, id := range sorted {
		if id.IsZero() {
			return nil, errors.New("inbox: a message has no id")
		}
		// The day comes from the id and not from the clock: a redelivery after
		// midnight must find the row of its first delivery.
		days[i] = id.Time().Truncate(24 * time.Hour)
	}
	noted, err := inboxdb.New(tx).NoteMessages(ctx, inboxdb.NoteMessagesParams{Consumer: consumer, Ids: sorted, Days: days})
	if err != nil {
		return nil, fmt.Errorf("inbox: record messages of %s: %w", consumer, err)
	}
	fresh := make(map[ids.ID]bool, len(noted))
	for _, id := range noted {
		fresh[id] = true
	}
	return fresh, nil
}
