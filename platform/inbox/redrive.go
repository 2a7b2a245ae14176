package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/bus"
	"stampede/platform/fault"
	"stampede/platform/ids"
	"stampede/platform/outbox"
	"stampede/platform/pg"
)

// ErrNotFound means that there is no such dead letter, or no more.
var ErrNotFound = fault.New(fault.NotFound, "not-found", "There is no such dead letter; somebody may have redriven it already.")

// DeadLetter is a message that a consumer gave up on.
type DeadLetter struct {
	ID        ids.ID    `json:"id"`
	Consumer  string    `json:"consumer"`
	Subject   string    `json:"subject"`
	MessageID string    `json:"message_id"`
	Payload   []byte    `json:"payload"`
	Error     string    `json:"error"`
	Attempts  int       `json:"attempts"`
	CreatedAt time.Time `json:"created_at"`
}

// Querier reads: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// List returns at most limit dead letters older than before (the zero ID = all),
// newest first.
func List(ctx context.Context, db Querier, before ids.ID, limit int) ([]DeadLetter, error) {
	rows, err := db.Query(ctx, `
		SELECT id, consumer, subject, message_id, payload, error, attempts, created_at FROM platform.dead_letters
		WHERE $1 OR id < $2 ORDER BY id DESC LIMIT $3`, before.IsZero(), before, limit)
	if err != nil {
		return nil, fmt.Errorf("inbox: list dead letters: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DeadLetter])
	if err != nil {
		return nil, fmt.Errorf("inbox: list dead letters: %w", err)
	}
	return list, nil
}

// Redrive sends a dead letter again, to its consumer alone, with a full count
// of attempts and the id of the first time, so that an effect which did commit
// is not repeated. The letter is gone once the message is sure to go out; when
// the consumer gives up again, a new one is written. Returns ErrNotFound for an
// unknown id; after any other error the letter is still there.
func Redrive(ctx context.Context, pool *pgxpool.Pool, b *bus.Bus, id ids.ID) error {
	var d DeadLetter
	err := pool.QueryRow(ctx, `SELECT consumer, subject, message_id, payload FROM platform.dead_letters WHERE id = $1`, id).
		Scan(&d.Consumer, &d.Subject, &d.MessageID, &d.Payload)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = ErrNotFound
	case err != nil:
	case bus.OnGrants(d.Subject):
		err = redriveGrants(ctx, pool, b, id, d)
	default:
		err = redriveEvent(ctx, pool, id, d)
	}
	if err != nil {
		return fmt.Errorf("inbox: redrive %s: %w", id, err)
	}
	return nil
}

// redriveEvent goes by the outbox, in the commit that removes the letter.
func redriveEvent(ctx context.Context, pool *pgxpool.Pool, id ids.ID, d DeadLetter) error {
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM platform.dead_letters WHERE id = $1`, id)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrNotFound // somebody else was faster
		}
		_, err = outbox.Append(ctx, tx, bus.RedriveSubject(d.Consumer, d.MessageID, d.Subject), d.Payload)
		return err
	})
}

// redriveGrants publishes to the letter's own subject, because nobody but the
// writer consumes it and the writer consumes nothing else, and removes the
// letter after the acknowledgement. Whatever comes in between only sends the
// same twice: the writer knows a batch by the id in its payload and a grant by
// its number.
//
// The message's id is the letter's and not that of the first time: under that
// one the stream would drop it as a duplicate for two minutes, and a letter that
// is written again meanwhile would be this row, which is then removed.
func redriveGrants(ctx context.Context, pool *pgxpool.Pool, b *bus.Bus, id ids.ID, d DeadLetter) error {
	if err := b.Publish(ctx, d.Subject, id, d.Payload); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, `DELETE FROM platform.dead_letters WHERE id = $1`, id)
	return err
}
