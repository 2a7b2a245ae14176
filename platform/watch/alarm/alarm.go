// Package alarm records problems that need an operator's attention, lists them for
// operators, exports them to Prometheus, and sends them to the people on call and to a
// webhook.
//
// # One row per code and subject
//
// The package that finds a problem defines its code (Define) and raises it for a
// subject. The row counts occurrences rather than repeating them; its severity and
// next action come from the definition. An incident begins with the first
// occurrence, and a new one with an occurrence after an hour's silence: then the
// acknowledgement is cleared and the alarm is posted again. Raising writes that one
// row and does not block.
//
// # Watching
//
// A Watch checks every few seconds for problems that make no call fail: a full
// stream, a disk that fills up, books that do not add up. A Probe's finding that
// lasts long enough is raised, and again each minute while it lasts. When it is
// over, the alarm gets its duration. An alarm that Postgres does not accept, because
// Postgres itself is down, is kept in memory, once per code and subject, and
// recorded when Postgres is back.
//
// # Who gets an alarm
//
// A Notifier tells each address of the settings about each incident; package channel
// describes the addresses. A row for each incident and address has what was sent there last:
// nothing, that there is a problem, or that it is over, which only a Watch knows. An
// address is due whenever that differs from the alarm. To people, all that is due at the
// same time is one message, and there is a pause between two, so that a storm of alarms
// is a few messages. Warnings wait for the on-call hours; the addresses of --alarm-then
// wait until a critical incident has been sent elsewhere for a while without an
// acknowledgement. What is only for information (Info) goes to people with the warnings; it
// is no open alarm, and neither the webhook nor the event announces it.
//
// What is not accepted is retried, after 5 s and then twice as long each time up to
// 15 min, until the incident is a day old; from the fifth failure on the alarm
// alarm-webhook-failing is raised, and goes out by the other addresses. An alarm that was
// acknowledged before it was sent is not sent.
//
// # The webhook
//
// The webhook is an address for programs: it gets each incident once and by itself, as JSON:
//
//	{"id": "17-1", "alarm": {"id": "17", "code": "dead-letter", "severity": "critical", …}}
//
// id identifies the incident; a receiver that gets it twice, because its answer was
// lost, must drop the second. Two headers sign the message:
//
//	Stampede-Timestamp: 1760000000      seconds since 1970
//	Stampede-Signature: 5f2c…           hex HMAC-SHA256 with the webhook's secret over
//	                                    those digits, a line feed and the raw body
//
// To verify, compute the same over the body as received, before parsing it, compare
// in constant time, and refuse a timestamp more than five minutes from the local
// clock. [Verify] does that. With OpenSSL:
//
//	printf '%s\n%s' "$timestamp" "$body" | openssl dgst -sha256 -hmac "$secret"
//
// Any 2xx means accepted. Redirects are not followed.
//
// # The event
//
// SubjectRaised is published once for each incident, a second after it began, also without
// a webhook: for the shop's own systems, beside its other events.
//
// # Concurrency
//
// All state is in Postgres. Each instance runs a Notifier with a loop for each address, so
// that one that hangs delays no other; a claim with SKIP LOCKED assigns what is due to one
// instance for as long as one attempt may take, and a process that dies leaves it to the
// others. Probes whose subject is the same for all instances run under a lease.
//
// # Retention
//
// The housekeeper of platform/store/outbox deletes alarms that have not occurred for
// --keep-records.
package alarm

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/edge/httpx"
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
	over            bool      // the problem is over
}

func newOccurrence(d *Definition, subject, detail string) occurrence {
	now := time.Now()
	return occurrence{alarm: d, subject: subject, detail: detail, first: now, last: now, count: 1}
}

// record writes an occurrence, a current one or one that ended long ago.
func record(ctx context.Context, db pg.DB, o occurrence) error {
	err := alarmdb.New(db).RecordAlarm(ctx, alarmdb.RecordAlarmParams{
		Code: string(o.alarm.Code), Subject: o.subject, Severity: string(o.alarm.Severity), NextAction: o.alarm.Action[httpx.English],
		Detail: storable(o.detail), Count: o.count, Over: o.over, Began: time.Since(o.first), Ended: time.Since(o.last),
	})
	if err != nil {
		return fmt.Errorf("alarm: raise %s: %w", o.alarm.Code, err)
	}
	return nil
}
