package alarm

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Execer writes: a pool, a connection or a transaction.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Querier reads: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// silence is how long an alarm must not have been seen for its next occurrence
// to be a new incident: longer than the slowest sampling pauses, so that one
// long trouble is one incident.
const silence = "interval '1 hour'"

// detailBytes bounds what is stored of a detail, which may end in an error's
// text.
const detailBytes = 2 << 10

// Raise records an occurrence of a code about a subject, with what was found
// this time. It writes one row and tells nobody itself, so it belongs into the
// transaction of what it is about; the Notifier tells. A repeated alarm keeps
// its acknowledgement while it goes on, and loses it when it returns after an
// hour's silence: that is a new incident and somebody should know.
func Raise(ctx context.Context, db Execer, code Code, subject, detail string) error {
	d, known := byCode[code]
	if !known {
		return fmt.Errorf("alarm: %q is no code of the list", code)
	}
	_, err := db.Exec(ctx, `
		INSERT INTO platform.alarms AS a (code, subject, severity, next_action, detail) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (code, subject) DO UPDATE SET
			severity = excluded.severity, next_action = excluded.next_action, detail = excluded.detail,
			last_seen = clock_timestamp(), count = a.count + 1,
			(acknowledged_by, acknowledged_at, incident, opened_at, tell_attempts, tell_after) = (SELECT
				CASE WHEN n.same THEN a.acknowledged_by END, CASE WHEN n.same THEN a.acknowledged_at END,
				CASE WHEN n.same THEN a.incident ELSE a.incident + 1 END, CASE WHEN n.same THEN a.opened_at ELSE clock_timestamp() END,
				CASE WHEN n.same THEN a.tell_attempts ELSE 0 END, CASE WHEN n.same THEN a.tell_after ELSE clock_timestamp() END
				FROM (SELECT a.last_seen > clock_timestamp() - `+silence+` AS same) n)`,
		string(code), subject, string(d.Severity), d.Action, storable(detail))
	if err != nil {
		return fmt.Errorf("alarm: raise %s: %w", code, err)
	}
	return nil
}
