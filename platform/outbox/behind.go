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
	// behindAfter is the age of an unsent row that asks for a person. Rows go out
	// within milliseconds; a restart of NATS or of this process holds them up for
	// seconds.
	behindAfter = time.Minute
	// behindEvery is how often the oldest row is looked at, by its index.
	behindEvery = 10 * time.Second
)

// Behind is the probe for the alarm outbox-behind: rows that nobody has sent
// for a minute. Rows that the bus refuses have an alarm of their own as well.
func Behind(pool *pgxpool.Pool) alarm.Probe {
	return alarm.Probe{Code: alarm.OutboxBehind, Every: behindEvery, Shared: true, Look: func(ctx context.Context) ([]alarm.Finding, error) {
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
		case seconds < behindAfter.Seconds():
			return nil, nil
		}
		return []alarm.Finding{{Subject: "outbox", Detail: fmt.Sprintf("The oldest row, %s, has waited for %.0f s.", subject, seconds)}}, nil
	}}
}
