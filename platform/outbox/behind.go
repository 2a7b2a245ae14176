package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/alarm"
)

const (
	// behindAfter is how long rows must have waited, look after look, before a person
	// is asked. Rows go out within milliseconds; a restart of NATS or of this process
	// holds them up for seconds. It counts from the first look and not from the
	// making of the row: what a recall unmarks, and what a stop has left over, is
	// old and yet has waited for nothing.
	behindAfter = time.Minute
	// behindEvery is how often the oldest row is looked at, by its index, and the
	// age from which on a row is late rather than on its way.
	behindEvery = 10 * time.Second
)

// Behind is the probe for the alarm outbox-behind: for a minute there have been
// rows that nobody sends. Rows that the bus refuses have an alarm of their own as well.
func Behind(pool *pgxpool.Pool) alarm.Probe {
	return alarm.Probe{Code: alarm.OutboxBehind, Every: behindEvery, For: behindAfter, Shared: true, Look: func(ctx context.Context) ([]alarm.Finding, error) {
		var seconds float64
		var subject string
		// By id, which the index of unsent rows has in order: ids rise with time.
		err := pool.QueryRow(ctx, `
			SELECT extract(epoch FROM clock_timestamp() - created_at)::float8, subject
			FROM platform.outbox WHERE sent_at IS NULL ORDER BY id LIMIT 1`).Scan(&seconds, &subject)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("outbox: read the oldest row: %w", err)
		case seconds < behindEvery.Seconds():
			return nil, nil
		}
		return []alarm.Finding{{Subject: "outbox", Detail: fmt.Sprintf("The oldest event, %s, was made %.0f s ago.", subject, seconds)}}, nil
	}}
}
