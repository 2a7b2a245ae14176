package alarm

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm/internal/alarmdb"
)

// SubjectRaised is published once for each incident; its payload is Raised.
const SubjectRaised = "events.alarm.raised"

// Raised is an incident as it began.
type Raised struct {
	ID         int64     `json:"id,string"`
	Incident   int       `json:"incident"`
	Code       Code      `json:"code"`
	Severity   Severity  `json:"severity"`
	Subject    string    `json:"subject"`
	Detail     string    `json:"detail,omitempty"`
	NextAction string    `json:"next_action"` // in English
	OpenedAt   time.Time `json:"opened_at"`
}

const (
	// publishEvery is how late an incident's event may be.
	publishEvery = time.Second
	// unpublished is whether an incident has no event yet.
	unpublished = `EXISTS (SELECT FROM platform.alarms WHERE published_incident < incident)`
	// publishTimeout bounds one round.
	publishTimeout = 5 * time.Second
	// publishAtMost bounds one transaction; the others follow a second later.
	publishAtMost = 100
)

// publish writes the events of new incidents. It reads the rows, so that Raise stays one
// statement, on a pool as well as in a transaction.
func publish(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		rows, err := alarmdb.New(tx).PublishIncidents(ctx, publishAtMost)
		if err != nil {
			return fmt.Errorf("alarm: read unpublished incidents: %w", err)
		}
		for _, r := range rows {
			if Severity(r.Severity) == Info { // it has no event, and is marked so that the pulse does not ask for it for ever
				continue
			}
			_, err := outbox.Append(ctx, tx, SubjectRaised, Raised{
				ID: r.ID, Incident: int(r.Incident), Code: Code(r.Code), Severity: Severity(r.Severity), Subject: r.Subject, Detail: r.Detail,
				NextAction: r.NextAction, OpenedAt: r.OpenedAt,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
