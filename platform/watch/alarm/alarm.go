package alarm

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm/internal/alarmdb"
)

// detailBytes bounds the stored detail, which may end in an error's text.
const detailBytes = 2 << 10

// occurrence is a finding about a subject, made once or several times.
type occurrence struct {
	alarm           *Definition
	subject, detail string
	first, last     time.Time // by this process's clock; Postgres gets how long ago that was
	count           int64     // 0 updates only the duration
}

func newOccurrence(d *Definition, subject, detail string) occurrence {
	now := time.Now()
	return occurrence{alarm: d, subject: subject, detail: detail, first: now, last: now, count: 1}
}

// record writes an occurrence, a current one or one that ended long ago.
func record(ctx context.Context, db pg.DB, o occurrence) error {
	err := alarmdb.New(db).RecordAlarm(ctx, alarmdb.RecordAlarmParams{
		Code: string(o.alarm.Code), Subject: o.subject, Severity: string(o.alarm.Severity), NextAction: o.alarm.Action,
		Detail: storable(o.detail), Count: o.count, Began: time.Since(o.first), Ended: time.Since(o.last),
	})
	if err != nil {
		return fmt.Errorf("alarm: raise %s: %w", o.alarm.Code, err)
	}
	return nil
}
