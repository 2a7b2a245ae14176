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
// is not repeated. The letter is gone with the same commit; when the consumer
// gives up again, a new one is written. Returns ErrNotFound for an unknown id.
func Redrive(ctx context.Context, pool *pgxpool.Pool, id ids.ID) error {
	err := pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		var d DeadLetter
		err := tx.QueryRow(ctx, `DELETE FROM platform.dead_letters WHERE id = $1
			RETURNING consumer, subject, message_id, payload`, id).Scan(&d.Consumer, &d.Subject, &d.MessageID, &d.Payload)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		_, err = outbox.Append(ctx, tx, bus.RedriveSubject(d.Consumer, d.MessageID, d.Subject), d.Payload)
		return err
	})
	if err != nil {
		return fmt.Errorf("inbox: redrive %s: %w", id, err)
	}
	return nil
}
