package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/store/bus"
	"stampede/platform/store/outbox/internal/outboxdb"
)

const (
	// recallMargin is how much later than the making of EVENTS a row may be marked
	// whose event lay on the lost stream: the mark follows the acknowledgement by
	// milliseconds, the rest is for two clocks that differ. Rows of the new
	// stream's first half minute go out twice for it, which consumers bear.
	recallMargin = 30 * time.Second
	// recallTimeout bounds the unmarking of one day: a million rows take some
	// ten seconds.
	recallTimeout = time.Minute
	// recallRetry paces the tries after one that failed; meanwhile new rows are
	// sent as ever.
	recallRetry = 5 * time.Second
)

// recall unmarks the rows whose events were lost with EVENTS, so that they are
// sent again: those marked before the stream, as it is now, was created, unless
// it would have dropped them by their age. It goes by the times alone and keeps
// no note of its own: rows sent again are marked later than the stream, so that
// a crash in the middle, a restart and a second instance go on where it was. In
// normal operation it asks once after the start and finds nothing.
func (r *Relay) recall(ctx context.Context) {
	created := r.bus.EventsCreated()
	if created.Equal(r.recalled) || time.Now().Before(r.recallAt) {
		return
	}
	found, done, err := r.unmark(ctx, created)
	r.again.Add(float64(found.all))
	switch {
	case found.lost > 0:
		r.log.WarnContext(ctx, "EVENTS was made anew, what it had held is sent again", "rows", found.all, "created", created)
	case found.all > 0:
		r.log.InfoContext(ctx, "events from about the making of EVENTS are sent once more", "rows", found.all, "created", created)
	}
	switch {
	case err != nil:
		r.recallAt = time.Now().Add(recallRetry)
		r.log.WarnContext(ctx, "events that were lost with EVENTS not unmarked yet", "error", err)
	case done:
		r.recalled = created
	}
}

// recalled is how many rows were unmarked, and how many of them had been marked
// before the stream was made and not within the margin after.
type recalled struct{ all, lost int64 }

// unmark does it a day's partition at a time, each in a transaction of its own.
// It reports false when another relay is at work: that one may hold rows that
// it is about to mark.
func (r *Relay) unmark(ctx context.Context, created time.Time) (sum recalled, done bool, err error) {
	var asOf time.Time // rows marked after the beginning are on the new stream
	for age := keepDays; age >= 0; age-- {
		n, mine, err := r.unmarkDay(ctx, age, created, &asOf)
		if err != nil || !mine {
			return sum, false, err
		}
		sum.all += n.all
		sum.lost += n.lost
	}
	return sum, true, nil
}

func (r *Relay) unmarkDay(ctx context.Context, age int, created time.Time, asOf *time.Time) (n recalled, mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	tx, err := r.pool.Begin(ctx)
	if err != nil {
		return n, false, fmt.Errorf("outbox: begin recall: %w", err)
	}
	defer rollback(ctx, tx)
	if mine, err := tryLock(ctx, tx); err != nil || !mine {
		return n, false, err
	}
	if asOf.IsZero() {
		if *asOf, err = outboxdb.New(tx).Clock(ctx); err != nil {
			return n, false, fmt.Errorf("outbox: read clock: %w", err)
		}
	}
	before := created.Add(r.margin)
	if asOf.Before(before) {
		before = *asOf
	}
	oldest := asOf.Add(-bus.EventsMaxAge)
	if !before.After(oldest) {
		return n, true, nil // the stream is older than anything that it holds
	}
	// Between oldest and before lies the moment up to which a mark means a loss.
	day, lostBefore := asOf.UTC().AddDate(0, 0, -age), created
	switch {
	case before.Before(created):
		lostBefore = before
	case oldest.After(created):
		lostBefore = oldest
	}
	if n.lost, err = unmarkBetween(ctx, tx, day, oldest, lostBefore); err != nil {
		return recalled{}, false, err
	}
	perhaps, err := unmarkBetween(ctx, tx, day, lostBefore, before)
	if err != nil {
		return recalled{}, false, err
	}
	n.all = n.lost + perhaps
	if err := tx.Commit(ctx); err != nil {
		return recalled{}, false, fmt.Errorf("outbox: commit recall: %w", err)
	}
	return n, true, nil
}

// unmarkBetween unmarks the rows of a day that were marked in a span of time.
func unmarkBetween(ctx context.Context, tx pgx.Tx, day, from, to time.Time) (int64, error) {
	unmarked, err := outboxdb.New(tx).UnmarkBetween(ctx, outboxdb.UnmarkBetweenParams{Day: day, FromTime: from, ToTime: to})
	if err != nil {
		return 0, fmt.Errorf("outbox: unmark rows: %w", err)
	}
	return unmarked, nil
}

// tryLock takes the lock of the one relay at work until tx ends.
func tryLock(ctx context.Context, tx pgx.Tx) (mine bool, err error) {
	if mine, err = outboxdb.New(tx).TryLockRelay(ctx, relayLock); err != nil {
		return false, fmt.Errorf("outbox: lock: %w", err)
	}
	return mine, nil
}

// rollback ends a transaction that was not committed. Under a context that has
// ended it closes the connection without asking Postgres.
func rollback(ctx context.Context, tx pgx.Tx) { _ = tx.Rollback(ctx) } // a no-op after Commit
