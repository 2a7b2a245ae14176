package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
	"stampede/platform/store/outbox/internal/outboxdb"
	"stampede/platform/store/pg"
)

// Status is where an event of the outbox is.
type Status string

// The states of an event.
const (
	Pending Status = "pending" // the relay sends it, for the first time or after refusals
	Sent    Status = "sent"    // the bus has stored it
	Failed  Status = "failed"  // the bus refused it for too long; an operator redrives it
)

// Message is an event of the outbox. Attempts and Error count refusals only: an outage
// of the bus is no attempt at an event.
type Message struct {
	ID        ids.ID
	Day       time.Time // of its partition; zero for a refused event, which has none
	Status    Status
	Subject   string
	Bytes     int
	Payload   []byte // in Get only
	CreatedAt time.Time
	SentAt    *time.Time
	Attempts  int
	Error     string
	NextTry   *time.Time // of a pending event that was refused
	FailedAt  *time.Time
}

// Filter narrows a list of events in one state.
type Filter struct {
	Status       Status
	Subject      string // "" matches all
	Since, Until time.Time
	// Before is the last event of the previous page: its id, and of sent events its day
	// too. The zero ID is the beginning.
	Before    ids.ID
	BeforeDay time.Time
	Limit     int
}

// The bounds of a filter that gives none.
var (
	everAfter = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) // the last year that Postgres and JSON agree on
	lastID    = ids.ID(slices.Repeat([]byte{0xff}, 16))     // a UUID's bytes
)

// List returns the events that match the filter, the newest first; sent events for as
// long as the outbox keeps them, LogDays.
func List(ctx context.Context, db pg.DB, f Filter) ([]Message, error) {
	if f.Until.IsZero() {
		f.Until = everAfter
	}
	if f.Before.IsZero() {
		f.Before, f.BeforeDay = lastID, everAfter
	}
	list, err := list(ctx, outboxdb.New(db), f)
	if err != nil {
		return nil, fmt.Errorf("outbox: list %s events: %w", f.Status, err)
	}
	return list, nil
}

func list(ctx context.Context, q *outboxdb.Queries, f Filter) (list []Message, err error) {
	atMost := int32(f.Limit) //nolint:gosec // a page
	if f.Status == Sent {
		rows, err := q.SentMessages(ctx, outboxdb.SentMessagesParams{
			BeforeDay: f.BeforeDay, Before: f.Before, Subject: f.Subject, Since: f.Since, Until: f.Until,
			// The day is that of the transaction's beginning; of an event that was refused first, that of its sending.
			FirstDay: f.Since.UTC().AddDate(0, 0, -1), LastDay: f.BeforeDay, AtMost: atMost,
		})
		for _, r := range rows {
			list = append(list, Message{ID: r.ID, Day: r.Day, Status: Sent, Subject: r.Subject, Bytes: int(r.Bytes), CreatedAt: r.CreatedAt, SentAt: r.SentAt})
		}
		return list, err
	}
	refused, err := q.RefusedMessages(ctx, outboxdb.RefusedMessagesParams{
		Failed: f.Status == Failed, Before: f.Before, Subject: f.Subject, Since: f.Since, Until: f.Until, AtMost: atMost,
	})
	for _, r := range refused {
		list = append(list, Message{
			ID: r.ID, Status: f.Status, Subject: r.Subject, Bytes: int(r.Bytes), CreatedAt: r.CreatedAt,
			Attempts: int(r.Attempts), Error: r.Error, NextTry: r.NextTry, FailedAt: r.FailedAt,
		})
	}
	if err != nil || f.Status != Pending {
		return list, err
	}
	unsent, err := q.UnsentMessages(ctx, outboxdb.UnsentMessagesParams{Before: f.Before, Subject: f.Subject, Since: f.Since, Until: f.Until, AtMost: atMost})
	for _, r := range unsent {
		list = append(list, Message{ID: r.ID, Status: Pending, Subject: r.Subject, Bytes: int(r.Bytes), CreatedAt: r.CreatedAt})
	}
	slices.SortFunc(list, func(a, b Message) int { return cmp.Compare(b.ID.String(), a.ID.String()) })
	return list[:min(len(list), f.Limit)], err
}

// refusedPending are the pending events that the bus has refused.
const refusedPending Status = "refused"

// Refused returns the events that the bus refuses, those first that have failed; at
// most limit of either.
func Refused(ctx context.Context, db pg.DB, limit int) (all []Message, err error) {
	for _, status := range []Status{Failed, refusedPending} {
		some, err := List(ctx, db, Filter{Status: status, Limit: limit})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Get returns an event with its payload; ok is false for an unknown id.
func Get(ctx context.Context, db pg.DB, id ids.ID) (m Message, ok bool, err error) {
	// The relay sets a refused event aside and a redrive brings it back: an event that
	// moved between the two reads of a look is found by the next one.
	for range 2 {
		if m, ok, err = look(ctx, db, id); ok || err != nil {
			return m, ok, err
		}
	}
	return m, false, nil
}

// look reads an event among the refused ones, then among the others.
func look(ctx context.Context, db pg.DB, id ids.ID) (m Message, ok bool, err error) {
	q := outboxdb.New(db)
	r, err := q.RefusedMessage(ctx, id)
	if err == nil {
		m = Message{
			ID: id, Status: Pending, Subject: r.Subject, Bytes: len(r.Payload), Payload: r.Payload, CreatedAt: r.CreatedAt,
			Attempts: int(r.Attempts), Error: r.Error, NextTry: r.NextTry, FailedAt: r.FailedAt,
		}
		if r.FailedAt != nil {
			m.Status = Failed
		}
		return m, true, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return m, false, fmt.Errorf("outbox: read refused event: %w", err)
	}
	days := make([]time.Time, 0, LogDays+aheadDays)
	for age := -1; age <= LogDays+1; age++ { // both clocks' todays
		days = append(days, time.Now().UTC().AddDate(0, 0, -age))
	}
	o, err := q.Message(ctx, outboxdb.MessageParams{Days: days, ID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("outbox: read event: %w", err)
	}
	m = Message{ID: id, Day: o.Day, Status: Pending, Subject: o.Subject, Bytes: len(o.Payload), Payload: o.Payload, CreatedAt: o.CreatedAt, SentAt: o.SentAt}
	if o.SentAt != nil {
		m.Status = Sent
	}
	return m, true, nil
}

// Redriven is an event that an operator has sent on its way again.
type Redriven = outboxdb.RedriveRow

// Redrive lets the relay try a refused event now, and again for as long as a new one.
// It returns none if the event is not refused: it is unknown, or sent meanwhile.
func Redrive(ctx context.Context, tx pgx.Tx, id ids.ID) ([]Redriven, error) {
	return redrive(ctx, tx, outboxdb.RedriveParams{One: true, ID: id, AtMost: 1})
}

// RedriveFailed does the same for the oldest failed events of a subject, or of all with
// "", at most atMost.
func RedriveFailed(ctx context.Context, tx pgx.Tx, subject string, atMost int) ([]Redriven, error) {
	return redrive(ctx, tx, outboxdb.RedriveParams{Subject: subject, AtMost: int32(atMost)}) //nolint:gosec // a small bound
}

func redrive(ctx context.Context, tx pgx.Tx, p outboxdb.RedriveParams) ([]Redriven, error) {
	rows, err := outboxdb.New(tx).Redrive(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("outbox: redrive: %w", err)
	}
	return rows, nil
}

// CountFailed counts the failed events of a subject, or of all with "".
func CountFailed(ctx context.Context, db pg.DB, subject string) (int, error) {
	n, err := outboxdb.New(db).CountFailed(ctx, subject)
	if err != nil {
		return 0, fmt.Errorf("outbox: count failed events: %w", err)
	}
	return int(n), nil
}
