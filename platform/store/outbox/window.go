package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/failpoint"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox/internal/outboxdb"
)

// relayPublished is the point where a test kills the process or fails a window.
var relayPublished = failpoint.NewErr("relay-published",
	"The outbox relay has published a window and not yet marked its rows.")

const (
	// windowRows is how many rows one transaction publishes: at 3,500 synced
	// messages a second it is open for some 80 ms.
	windowRows = 256
	// windowBytes bounds the memory of a window whose rows are large.
	windowBytes = 8 << 20
	// storeTimeout bounds a window's Postgres work before it publishes, and
	// again after: both take milliseconds. Beyond it Postgres is considered
	// hanging.
	storeTimeout = 10 * time.Second
)

// outcome says what to do after a window.
type outcome uint8

const (
	idle  outcome = iota // no rows are waiting
	more                 // more rows may be waiting already
	taken                // another relay has the lock
)

// row is one unsent event, with its age in seconds by Postgres's clock.
type row = outboxdb.UnsentRow

// locked runs do in a transaction that has the lock of the active relay, and reports false if another relay has it. What
// do does in Postgres before it publishes is bounded by timeout; publishing has its own bound.
func (r *Relay) locked(ctx context.Context, timeout time.Duration, do func(reading context.Context, tx pgx.Tx) error) (mine bool, err error) {
	reading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tx, err := r.pool.Begin(reading)
	if err != nil {
		return false, fmt.Errorf("outbox: begin: %w", err)
	}
	defer func() {
		// A no-op after a commit. If ctx has ended it closes the connection without a round trip to Postgres.
		ending, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		_ = tx.Rollback(ending)
	}()
	if mine, err = outboxdb.New(tx).TryLockRelay(reading, relayLock); err != nil {
		return false, fmt.Errorf("outbox: lock: %w", err)
	}
	if mine {
		err = do(reading, tx)
	}
	return mine, err
}

// window publishes and marks unsent rows in one transaction.
func (r *Relay) window(ctx context.Context) (next outcome, err error) {
	mine, err := r.locked(ctx, storeTimeout, func(reading context.Context, tx pgx.Tx) error {
		rows, err := r.unsent(reading, tx)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			r.lag.Set(0)
			return nil
		}
		next = more
		r.lag.Set(slices.MaxFunc(rows, func(a, b row) int { return cmp.Compare(a.Age, b.Age) }).Age)
		sent, err := r.publish(ctx, tx, rows)
		marking, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		if err := r.published(); err != nil {
			return err
		}
		if markErr := mark(marking, tx, sent); markErr != nil {
			return errors.Join(err, markErr)
		}
		if commitErr := tx.Commit(marking); commitErr != nil {
			return errors.Join(err, fmt.Errorf("outbox: commit: %w", commitErr))
		}
		r.sent.Add(float64(len(sent)))
		return err
	})
	if !mine && err == nil {
		r.lag.Set(0) // the other relay reports it
		return taken, nil
	}
	return next, err
}

// unsent reads rows, bounded in number and in bytes, but at least one. Those from
// before EVENTS are mostly sent again: they come after the news, and among them those
// that waited for the new stream before what was on the old one.
func (r *Relay) unsent(ctx context.Context, tx pgx.Tx) ([]row, error) {
	q, since := outboxdb.New(tx), ids.Lowest(r.bus.EventsCreated())
	rows, err := q.Unsent(ctx, outboxdb.UnsentParams{Since: since, AtMost: windowRows, Bytes: windowBytes})
	if err != nil {
		return nil, fmt.Errorf("outbox: read unsent rows: %w", err)
	}
	if len(rows) == windowRows {
		return rows, nil
	}
	again, err := q.UnsentBefore(ctx, outboxdb.UnsentBeforeParams{Since: since, AtMost: windowRows - int32(len(rows)), Bytes: windowBytes}) //nolint:gosec // a window
	if err != nil {
		return nil, fmt.Errorf("outbox: read rows to send again: %w", err)
	}
	for _, w := range again {
		rows = append(rows, row(w))
	}
	return rows, nil
}

// publish sends the rows and returns those that are stored on the bus, with an
// error if others are not.
func (r *Relay) publish(ctx context.Context, tx pgx.Tx, rows []row) ([]row, error) {
	out := make([]bus.Outgoing, len(rows))
	for i, w := range rows {
		out[i] = bus.Outgoing{Subject: w.Subject, ID: w.ID, Data: w.Payload, Trace: w.Trace}
	}
	sent := make([]row, 0, len(rows))
	var first error // rows blocked by the same cause return the same error
	for i, err := range r.bus.PublishAll(ctx, out) {
		switch {
		case err == nil:
			sent = append(sent, rows[i])
		case errors.Is(err, bus.ErrRefused):
			if err := r.moveRefused(ctx, tx, rows[i], err); err != nil {
				return sent, err
			}
		case first == nil:
			first = err
		}
	}
	if first != nil {
		return sent, fmt.Errorf("outbox: %d of %d rows wait: %w", len(rows)-len(sent), len(rows), first)
	}
	return sent, nil
}

// mark records that rows are on the bus.
func mark(ctx context.Context, tx pgx.Tx, sent []row) error {
	if len(sent) == 0 {
		return nil
	}
	days, numbers := make([]time.Time, len(sent)), make([]ids.ID, len(sent))
	for i, w := range sent {
		days[i], numbers[i] = w.Day, w.ID
	}
	first, last := slices.MinFunc(days, time.Time.Compare), slices.MaxFunc(days, time.Time.Compare)
	err := outboxdb.New(tx).MarkSent(ctx, outboxdb.MarkSentParams{Days: days, Ids: numbers, FirstDay: first, LastDay: last})
	if err != nil {
		return fmt.Errorf("outbox: mark rows as sent: %w", err)
	}
	return nil
}
