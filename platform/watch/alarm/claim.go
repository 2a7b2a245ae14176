package alarm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm/internal/alarmdb"
)

// claimed is an incident that this process is about to post.
type claimed struct {
	Alarm
	attempts int // including this one
}

// claim takes the incident that has waited longest, until the claim expires: a
// process that dies leaves it to the others.
func claim(ctx context.Context, db pg.DB) (claimed, bool, error) {
	row, err := alarmdb.New(db).ClaimIncident(ctx, claimLife)
	if errors.Is(err, pgx.ErrNoRows) {
		return claimed{}, false, nil
	}
	if err != nil {
		return claimed{}, false, fmt.Errorf("alarm: claim: %w", err)
	}
	return claimed{Alarm: alarmOf(row), attempts: int(row.TellAttempts)}, true, nil
}

// accepted marks an incident as posted. A newer one that began meanwhile is posted
// as well.
func accepted(ctx context.Context, db pg.DB, c claimed) error {
	err := alarmdb.New(db).IncidentAccepted(ctx, alarmdb.IncidentAcceptedParams{ID: c.ID, Incident: int32(c.Incident)}) //nolint:gosec // read from the same column
	if err != nil {
		return fmt.Errorf("alarm: mark alarm %d as posted: %w", c.ID, err)
	}
	return nil
}

// refused sets when an incident that was not accepted is posted again.
func refused(ctx context.Context, db pg.DB, c claimed, pause time.Duration) error {
	err := alarmdb.New(db).IncidentRefused(ctx, alarmdb.IncidentRefusedParams{ID: c.ID, Incident: int32(c.Incident), Pause: pause}) //nolint:gosec // as above
	if err != nil {
		return fmt.Errorf("alarm: schedule a retry for alarm %d: %w", c.ID, err)
	}
	return nil
}
