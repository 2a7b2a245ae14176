package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/store/bus"
	"stampede/platform/store/outbox/internal/outboxdb"
	"stampede/platform/store/pg"
)

const (
	// recallMargin is how long after the creation of EVENTS a row may be marked
	// although its event was on the lost stream: the mark follows the
	// acknowledgement by milliseconds, the rest allows for clock skew. A recall that
	// is late sends rows of the new stream's first half minute twice, which
	// consumers tolerate.
	recallMargin = 30 * time.Second
	// recallTimeout bounds the unmarking of one day: a million rows take some
	// ten seconds.
	recallTimeout = time.Minute
	// recallRetry is the pause after a failed recall; meanwhile new rows are
	// sent as usual.
	recallRetry = 5 * time.Second
)

// recall unmarks the rows whose events were lost with EVENTS, so that they are
// sent again: those marked before the current stream was created, unless it
// would have dropped them by their age. Rows sent again are marked after the
// stream's creation, so that a restart after a crash, or a second instance,
// continues where it was. Once a stream's recall is complete no start repeats it.
func (r *Relay) recall(ctx context.Context) {
	created := r.bus.EventsCreated()
	if created.Equal(r.recalled) || time.Now().Before(r.recallAt) {
		return
	}
	found, done, err := r.unmark(ctx, created)
	r.again.Add(float64(found.all))
	switch {
	case found.lost > 0:
		r.log.WarnContext(ctx, "NATS lost its stream EVENTS, so the events that were only there are sent again; nothing needs to be done", "rows", found.all, "created", created)
	case found.all > 0:
		r.log.InfoContext(ctx, "resending events from around the creation of EVENTS", "rows", found.all, "created", created)
	}
	switch {
	case err != nil:
		r.recallAt = time.Now().Add(recallRetry)
		r.log.WarnContext(ctx, "recall of events lost with EVENTS failed, retrying", "error", err)
	case done:
		r.recalled = created
	}
}

// recalled counts the unmarked rows, and those of them marked before the stream
// was created rather than within the margin after.
type recalled struct{ all, lost int64 }

// unmark unmarks one day's partition at a time, each in a separate transaction.
// It reports false when another relay is active, which may be about to mark
// rows.
func (r *Relay) unmark(ctx context.Context, created time.Time) (sum recalled, done bool, err error) {
	q := outboxdb.New(r.pool)
	checking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if done, err := q.Recalled(checking, created); err != nil || done {
		return sum, done, err
	}
	var asOf time.Time // rows marked after the recall began are on the new stream
	for age := keepDays; age >= 0; age-- {
		n, mine, err := r.unmarkDay(ctx, age, created, &asOf)
		if err != nil || !mine {
			return sum, false, err
		}
		sum.all += n.all
		sum.lost += n.lost
	}
	noting, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := q.NoteRecalled(noting, created); err != nil {
		return sum, false, fmt.Errorf("outbox: note the recall: %w", err)
	}
	return sum, true, nil
}

func (r *Relay) unmarkDay(ctx context.Context, age int, created time.Time, asOf *time.Time) (n recalled, mine bool, err error) {
	mine, err = r.locked(ctx, recallTimeout, func(ctx context.Context, tx pgx.Tx) (err error) {
		if asOf.IsZero() {
			if *asOf, err = pg.Now(ctx, tx); err != nil {
				return fmt.Errorf("outbox: read clock: %w", err)
			}
		}
		before := created.Add(r.margin)
		if asOf.Before(before) {
			before = *asOf
		}
		oldest := asOf.Add(-bus.EventsMaxAge)
		if !before.After(oldest) {
			return nil // the stream is older than its retention, so nothing it would still keep was lost
		}
		// The time up to which a mark means a loss lies between oldest and before.
		day, lostBefore := asOf.UTC().AddDate(0, 0, -age), created
		switch {
		case before.Before(created):
			lostBefore = before
		case oldest.After(created):
			lostBefore = oldest
		}
		lost, err := unmarkBetween(ctx, tx, day, oldest, lostBefore)
		if err != nil {
			return err
		}
		perhaps, err := unmarkBetween(ctx, tx, day, lostBefore, before)
		if err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return fmt.Errorf("outbox: commit recall: %w", err)
		}
		n = recalled{all: lost + perhaps, lost: lost}
		return nil
	})
	return n, mine, err
}

// unmarkBetween unmarks the rows of a day that were marked in an interval.
func unmarkBetween(ctx context.Context, tx pgx.Tx, day, from, to time.Time) (int64, error) {
	unmarked, err := outboxdb.New(tx).UnmarkBetween(ctx, outboxdb.UnmarkBetweenParams{Day: day, FromTime: from, ToTime: to})
	if err != nil {
		return 0, fmt.Errorf("outbox: unmark rows: %w", err)
	}
	return unmarked, nil
}
