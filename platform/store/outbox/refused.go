package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox/internal/outboxdb"
)

const (
	// retryFirst is the wait after the first refusal of an event; it doubles up to
	// retryMost, within the hour's silence that would make the alarm a new incident.
	retryFirst = time.Minute
	retryMost  = 30 * time.Minute
	// retryEvery is how soon a redriven event is sent: an operator waits for it.
	retryEvery = 5 * time.Second
	// retryRows bounds the memory of one round of retries: refused events are large,
	// 1 MB each.
	retryRows = 16
	// refusedErrorBytes bounds the stored error.
	refusedErrorBytes = 2 << 10
)

// moveRefused moves a row that the bus refused out of the outbox, in the window's
// transaction: the window never reads it again, and its partition can be dropped.
func (r *Relay) moveRefused(ctx context.Context, tx pgx.Tx, w row, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	r.refused.Inc()
	r.log.ErrorContext(ctx, "outbox row refused by the bus", "id", w.ID.String(), "subject", w.Subject, "error", cause)
	err := outboxdb.New(tx).MoveRefused(ctx, outboxdb.MoveRefusedParams{Error: reason(cause), Pause: r.retryFirst, Day: w.Day, ID: w.ID})
	if err != nil {
		return fmt.Errorf("outbox: move refused row: %w", err)
	}
	return r.raiseRefused(ctx, tx, w.Subject, about(w.ID, len(w.Payload), cause))
}

// retry publishes the refused events that are due. Its failure delays nothing else.
func (r *Relay) retry(ctx context.Context) {
	if time.Now().Before(r.retryAt) {
		return
	}
	r.retryAt = time.Now().Add(r.retryEvery)
	for sent, err := retryRows, error(nil); sent == retryRows; { // until a round is not full or has an event that was not sent
		if sent, err = r.retryRound(ctx); err != nil {
			r.log.WarnContext(ctx, "refused events not tried again, retrying later", "error", err)
			return
		}
	}
}

// retryRound publishes a few due events under the relay's lock, as a window does, and
// returns how many were sent. An attempt counts only if the bus refused this event: one
// that the bus cannot answer leaves the row as it is.
func (r *Relay) retryRound(ctx context.Context) (n int, err error) {
	_, err = r.locked(ctx, storeTimeout, func(reading context.Context, tx pgx.Tx) error {
		due, err := outboxdb.New(tx).DueRefused(reading, retryRows)
		if err != nil {
			return fmt.Errorf("outbox: read refused events: %w", err)
		}
		if len(due) == 0 {
			return nil
		}
		out := make([]bus.Outgoing, len(due))
		for i, d := range due {
			out[i] = bus.Outgoing{Subject: d.Subject, ID: d.ID, Data: d.Payload, Trace: d.Trace}
		}
		outcomes := r.bus.PublishAll(ctx, out)
		marking, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		var sent []ids.ID
		var waits error
		for i, err := range outcomes {
			switch {
			case err == nil:
				sent = append(sent, due[i].ID)
			case errors.Is(err, bus.ErrRefused):
				if err := r.refusedAgain(marking, tx, due[i], err); err != nil {
					return err
				}
			default:
				waits = err
			}
		}
		if err := outboxdb.New(tx).RefusedSent(marking, sent); err != nil {
			return fmt.Errorf("outbox: mark refused events as sent: %w", err)
		}
		if err := tx.Commit(marking); err != nil {
			return fmt.Errorf("outbox: commit retry: %w", err)
		}
		r.sent.Add(float64(len(sent)))
		n = len(sent)
		return waits
	})
	return n, err
}

// refusedAgain notes another refusal, and raises the alarm about the refusal or about
// the failure.
func (r *Relay) refusedAgain(ctx context.Context, tx pgx.Tx, d outboxdb.DueRefusedRow, cause error) error {
	r.refused.Inc()
	pause := retryMost
	if d.Attempts < 10 { // beyond, the doubled pause is above retryMost, and later above any duration
		pause = min(r.retryFirst<<d.Attempts, retryMost)
	}
	failed, err := outboxdb.New(tx).RefusedAgain(ctx, outboxdb.RefusedAgainParams{Error: reason(cause), Pause: pause, Bound: r.giveUpAfter, ID: d.ID})
	if err != nil {
		return fmt.Errorf("outbox: note refusal: %w", err)
	}
	r.log.ErrorContext(ctx, "outbox row refused by the bus again", "id", d.ID.String(), "subject", d.Subject,
		"attempts", d.Attempts+1, "failed", failed, "error", cause)
	raise := r.raiseRefused
	if failed {
		raise = r.raiseFailed
	}
	return raise(ctx, tx, d.Subject, about(d.ID, len(d.Payload), cause))
}

func about(id ids.ID, bytes int, cause error) string {
	return fmt.Sprintf("Row %s of %d bytes: %v", id, bytes, cause)
}

// reason is the stored text of an error.
func reason(err error) string {
	text := err.Error()
	return text[:min(len(text), refusedErrorBytes)]
}
