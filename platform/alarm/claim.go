package alarm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// tellWithin is how old an incident may be to be told: what is older is history,
// and a webhook that is set up today must not be flooded with it.
const tellWithin = "interval '24 hours'"

// claimed is an incident that this process is about to tell.
type claimed struct {
	Alarm
	attempts int // with this one
}

// claim takes the incident that has waited longest for itself, until the claim
// runs out: a process that dies leaves it to the others.
func claim(ctx context.Context, db Querier) (claimed, bool, error) {
	rows, err := db.Query(ctx, `
		UPDATE platform.alarms SET tell_attempts = tell_attempts + 1, tell_after = clock_timestamp() + $1
		WHERE id = (
			SELECT id FROM platform.alarms
			WHERE told_incident < incident AND acknowledged_at IS NULL AND tell_after <= clock_timestamp()
			  AND opened_at > clock_timestamp() - `+tellWithin+`
			ORDER BY tell_after, id LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING `+alarmColumns+`, tell_attempts`, claimLife)
	if err != nil {
		return claimed{}, false, fmt.Errorf("alarm: claim: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (c claimed, err error) {
		a := &c.Alarm
		err = row.Scan(&a.ID, &a.Code, &a.Subject, &a.Severity, &a.Detail, &a.NextAction, &a.FirstSeen, &a.OpenedAt, &a.LastSeen, &a.Count,
			&a.AcknowledgedBy, &a.AcknowledgedAt, &a.Incident, &c.attempts)
		return c, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return claimed{}, false, nil
	}
	if err != nil {
		return claimed{}, false, fmt.Errorf("alarm: claim: %w", err)
	}
	return c, true, nil
}

// accepted notes that an incident was told. A newer one that began meanwhile is
// told as well.
func accepted(ctx context.Context, db Execer, c claimed) error {
	_, err := db.Exec(ctx, `
		UPDATE platform.alarms SET told_incident = $2, tell_attempts = 0 WHERE id = $1 AND told_incident < $2`, c.ID, c.Incident)
	if err != nil {
		return fmt.Errorf("alarm: note that %d was told: %w", c.ID, err)
	}
	return nil
}

// refused notes when an incident that was not accepted is told again.
func refused(ctx context.Context, db Execer, c claimed, pause time.Duration) error {
	_, err := db.Exec(ctx, `
		UPDATE platform.alarms SET tell_after = clock_timestamp() + $3 WHERE id = $1 AND incident = $2`, c.ID, c.Incident, pause)
	if err != nil {
		return fmt.Errorf("alarm: note that %d was not accepted: %w", c.ID, err)
	}
	return nil
}
