package alarm

import (
	"context"
	"fmt"
	"time"

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
	return record(ctx, db, newOccurrence(code, subject, detail))
}

// occurrence is what was found about a subject, once or several times.
type occurrence struct {
	code            Code
	subject, detail string
	first, last     time.Time // by this process's clock; Postgres is told how long ago that was
	count           int64     // 0 tells only how long it lasted
}

func newOccurrence(code Code, subject, detail string) occurrence {
	now := time.Now()
	return occurrence{code: code, subject: subject, detail: detail, first: now, last: now, count: 1}
}

// record writes an occurrence, now or when it is long over.
func record(ctx context.Context, db Execer, o occurrence) error {
	d, known := byCode[o.code]
	if !known {
		return fmt.Errorf("alarm: %q is no code of the list", o.code)
	}
	_, err := db.Exec(ctx, `
		INSERT INTO platform.alarms AS a (code, subject, severity, next_action, detail, count, first_seen, opened_at, last_seen)
		SELECT $1, $2, $3, $4, $5, $6, n.first, n.first, n.last
		FROM (SELECT clock_timestamp() - make_interval(secs => $7) AS first, clock_timestamp() - make_interval(secs => $8) AS last) n
		ON CONFLICT (code, subject) DO UPDATE SET
			severity = excluded.severity, next_action = excluded.next_action,
			detail = CASE WHEN excluded.last_seen >= a.last_seen THEN excluded.detail ELSE a.detail END,
			last_seen = greatest(a.last_seen, excluded.last_seen), count = a.count + excluded.count,
			(acknowledged_by, acknowledged_at, incident, opened_at, tell_attempts, tell_after) = (SELECT
				CASE WHEN n.same THEN a.acknowledged_by END, CASE WHEN n.same THEN a.acknowledged_at END,
				CASE WHEN n.same THEN a.incident ELSE a.incident + 1 END, CASE WHEN n.same THEN a.opened_at ELSE excluded.opened_at END,
				CASE WHEN n.same THEN a.tell_attempts ELSE 0 END, CASE WHEN n.same THEN a.tell_after ELSE clock_timestamp() END
				FROM (SELECT a.last_seen > excluded.first_seen - `+silence+` AS same) n)`,
		string(o.code), o.subject, string(d.Severity), d.Action, storable(o.detail), o.count,
		time.Since(o.first).Seconds(), time.Since(o.last).Seconds())
	if err != nil {
		return fmt.Errorf("alarm: raise %s: %w", o.code, err)
	}
	return nil
}
