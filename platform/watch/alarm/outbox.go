package alarm

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/store/outbox"
)

const (
	// behindAfter is how long events must have waited, in every check, before the
	// alarm. Events are sent within milliseconds; a restart of NATS or of this
	// process delays them for seconds. The time counts from the first check and not
	// from the creation of the event: an event that a recall unmarks, or that a stop
	// has left over, is old but has not waited.
	behindAfter = time.Minute
	// behindEvery is how often the oldest event is read, by its index, and the age
	// from which on an event counts as late rather than in transit.
	behindEvery = 10 * time.Second
)

// OutboxProbe finds an outbox whose events have not been sent for a minute. Events
// that the bus refuses have a separate alarm as well.
func OutboxProbe(pool *pgxpool.Pool) Probe {
	return Probe{Alarm: OutboxBehind, Every: behindEvery, For: behindAfter, Shared: true, Look: func(ctx context.Context) ([]Finding, error) {
		subject, age, err := outbox.Oldest(ctx, pool)
		if err != nil || age < behindEvery {
			return nil, err
		}
		return []Finding{{Subject: "outbox", Detail: fmt.Sprintf("The oldest event, %s, was made %.0f s ago.", subject, age.Seconds())}}, nil
	}}
}
