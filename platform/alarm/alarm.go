// Package alarm keeps what needs a person's eye: one row per code and subject,
// counted rather than repeated, acknowledged by name.
package alarm

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Severity says whether the alarm may wait for the morning.
type Severity string

// The severities.
const (
	Warning  Severity = "warning"  // nothing is lost; look during working hours
	Critical Severity = "critical" // shoppers or money are affected now
)

// Alarm is one thing that needs a person's eye.
type Alarm struct {
	Code       string   `json:"code"`    // stable, kebab-case: "dead-letter"
	Subject    string   `json:"subject"` // what it is about: "inventory-release"
	Severity   Severity `json:"severity"`
	NextAction string   `json:"next_action"` // one sentence that says what to do

	// Filled by List.
	FirstSeen      time.Time  `json:"first_seen"`
	LastSeen       time.Time  `json:"last_seen"`
	Count          int64      `json:"count"`
	AcknowledgedBy *string    `json:"acknowledged_by,omitempty"`
	AcknowledgedAt *time.Time `json:"acknowledged_at,omitempty"`
}

// Execer writes: a pool, a connection or a transaction.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Querier reads: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Raise records an occurrence. A repeated alarm keeps its acknowledgement while
// it goes on, and loses it when it returns after an hour's silence: that is a
// new incident and somebody should know.
func Raise(ctx context.Context, db Execer, a Alarm) error {
	_, err := db.Exec(ctx, `
		INSERT INTO platform.alarms AS a (code, subject, severity, next_action) VALUES ($1, $2, $3, $4)
		ON CONFLICT (code, subject) DO UPDATE SET
			severity = excluded.severity, next_action = excluded.next_action,
			last_seen = clock_timestamp(), count = a.count + 1,
			acknowledged_by = CASE WHEN a.last_seen > clock_timestamp() - interval '1 hour' THEN a.acknowledged_by END,
			acknowledged_at = CASE WHEN a.last_seen > clock_timestamp() - interval '1 hour' THEN a.acknowledged_at END`,
		a.Code, a.Subject, string(a.Severity), a.NextAction)
	if err != nil {
		return fmt.Errorf("alarm: raise %s: %w", a.Code, err)
	}
	return nil
}

// List returns at most limit alarms, last seen first; with open, only those
// that nobody has acknowledged.
func List(ctx context.Context, db Querier, open bool, limit int) ([]Alarm, error) {
	rows, err := db.Query(ctx, `
		SELECT code, subject, severity, next_action, first_seen, last_seen, count, acknowledged_by, acknowledged_at
		FROM platform.alarms WHERE NOT $1 OR acknowledged_at IS NULL
		ORDER BY last_seen DESC, code, subject LIMIT $2`, open, limit)
	if err != nil {
		return nil, fmt.Errorf("alarm: list: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Alarm])
	if err != nil {
		return nil, fmt.Errorf("alarm: list: %w", err)
	}
	return list, nil
}

// Acknowledge notes who looks after an alarm. It reports false when there is
// no such alarm or somebody has acknowledged it already.
func Acknowledge(ctx context.Context, db Execer, code, subject, by string) (bool, error) {
	tag, err := db.Exec(ctx, `
		UPDATE platform.alarms SET acknowledged_by = $3, acknowledged_at = clock_timestamp()
		WHERE code = $1 AND subject = $2 AND acknowledged_at IS NULL`, code, subject, by)
	if err != nil {
		return false, fmt.Errorf("alarm: acknowledge %s: %w", code, err)
	}
	return tag.RowsAffected() == 1, nil
}
