package alarm

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/store/outbox"
)

const (
	// behindAfter is how long events must have waited, look after look, before the
	// alarm. Events go out within milliseconds; a restart of NATS or of this process
	// holds them up for seconds. It counts from the first look and not from the
	// making of the event: what a recall unmarks, and what a stop has left over, is
	// old and yet has waited for nothing.
	behindAfter = time.Minute
	// behindEvery is how often the oldest event is read, by its index, and the age
	// from which on an event is late rather than on its way.
	behindEvery = 10 * time.Second
)

// OutboxProbe finds an outbox whose events have not been sent for a minute. Events
// that the bus refuses have an alarm of their own as well.
func OutboxProbe(pool *pgxpool.Pool) Probe {
	return Probe{Alarm: OutboxBehind, Every: behindEvery, For: behindAfter, Shared: true, Look: func(ctx context.Context) ([]Finding, error) {
		subject, age, err := outbox.Oldest(ctx, pool)
		if err != nil || age < behindEvery {
			return nil, err
		}
		return []Finding{{Subject: "outbox", Detail: fmt.Sprintf("The oldest event, %s, was made %.0f s ago.", subject, age.Seconds())}}, nil
	}}
}
